//! A child and a status for each Website: the child is watched, and applied only if it is not as it should be.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::{WatchStreamExt, predicates, reflector, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;
use tokio::time::sleep;

use crate::meter;
use crate::website::Website;

struct Operator {
    client: Client,
    children: Store<ConfigMap>,
}

pub async fn run(client: Client, concurrency: u16) -> Result<()> {
    let (sites, site_writer) = reflector::store();
    let (children, child_writer) = reflector::store();
    let config = || watcher::Config::default();
    let changed_sites = watcher(Api::<Website>::all(client.clone()), config())
        .default_backoff()
        .reflect(site_writer)
        .applied_objects()
        .predicate_filter(predicates::generation, Default::default());
    let changed_children = watcher(Api::<ConfigMap>::all(client.clone()), config())
        .default_backoff()
        .reflect(child_writer)
        .touched_objects();
    let context = Arc::new(Operator {
        client,
        children: children.clone(),
    });
    let work = Controller::for_stream(changed_sites, sites)
        .owns_stream(changed_children)
        .with_config(Config::default().concurrency(concurrency))
        .run(reconcile, error_policy, context)
        .for_each(|_| std::future::ready(()));
    tokio::spawn(work);
    // The store of the Websites wakes up one waiter only, and that is the controller.
    children.wait_until_ready().await?;
    sleep(Duration::from_millis(500)).await;
    meter::say("started", 0, meter::cpu(), meter::memory());
    let mut commands = meter::commands();
    while commands.next_line().await?.is_some() {
        meter::say("cpu", 0, meter::cpu(), meter::memory());
    }
    Ok(())
}

async fn reconcile(site: Arc<Website>, context: Arc<Operator>) -> Result<Action, kube::Error> {
    let name = site.name_any();
    let namespace = site.namespace().unwrap_or_default();
    let data = BTreeMap::from([("image".to_owned(), site.spec.image.clone())]);
    let cached = context
        .children
        .get(&ObjectRef::new(&name).within(&namespace));
    if cached.is_none_or(|child| child.data.as_ref() != Some(&data)) {
        let child = ConfigMap {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(namespace.clone()),
                owner_references: site.controller_owner_ref(&()).map(|owner| vec![owner]),
                ..ObjectMeta::default()
            },
            data: Some(data),
            ..ConfigMap::default()
        };
        let children: Api<ConfigMap> = Api::namespaced(context.client.clone(), &namespace);
        let ours = PatchParams::apply("websites").force();
        children.patch(&name, &ours, &Patch::Apply(&child)).await?;
    }
    if site.status.as_ref().is_none_or(|status| status.ready != 1) {
        let sites: Api<Website> = Api::namespaced(context.client.clone(), &namespace);
        let status = json!({"status": {"ready": 1}});
        sites
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(&status))
            .await?;
    }
    Ok(Action::await_change())
}

fn error_policy(site: Arc<Website>, error: &kube::Error, _: Arc<Operator>) -> Action {
    eprintln!("{}: {error}", site.name_any());
    Action::requeue(Duration::from_secs(1))
}
