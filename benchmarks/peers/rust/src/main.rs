//! kube-rs on the work of `bench-runtimes`: the first argument says which. KUBECONFIG says where the server is.

mod meter;
mod operator;
mod website;

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use futures::StreamExt;
use futures::channel::mpsc::{UnboundedReceiver, unbounded};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::ListParams;
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::{WatchStreamExt, predicates, reflector, watcher};
use kube::{Api, Client};
use tokio::sync::Notify;

use crate::website::Website;

#[tokio::main]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().collect();
    let number = |at: usize| {
        words
            .get(at)
            .and_then(|word| word.parse::<usize>().ok())
            .unwrap_or(0)
    };
    let client = Client::try_default().await?;
    match words.get(1).map(String::as_str) {
        Some("websites") => sync_websites(client).await,
        Some("pods") => sync_pods(client).await,
        Some("storm") => storm(client, number(2), number(3) as u16).await,
        Some("noop") => noop(client, number(2), number(3), number(4) as u16).await,
        Some("operator") => operator::run(client, number(2) as u16).await,
        Some("start") => start(client).await,
        other => bail!("unknown work: {other:?}"),
    }
}

/// Lists all Websites into a cache that a watch follows, and then reads each of them by its key.
async fn sync_websites(client: Client) -> Result<()> {
    Api::<Namespace>::all(client.clone())
        .list(&ListParams::default())
        .await?; // connected before it is measured
    let (began, before) = (meter::cpu(), meter::memory());
    let (store, writer) = reflector::store();
    let stream = watcher(Api::<Website>::all(client), watcher::Config::default());
    tokio::spawn(
        stream
            .default_backoff()
            .reflect(writer)
            .touched_objects()
            .for_each(|_| ready(())),
    );
    store.wait_until_ready().await?;
    let number = store.len();
    meter::say(
        "synced",
        number,
        meter::cpu() - began,
        meter::memory() - before,
    );
    let keys: Vec<ObjectRef<Website>> = store
        .state()
        .iter()
        .map(|one| ObjectRef::from_obj(one.as_ref()))
        .collect();
    let began = meter::cpu();
    let length: usize = keys
        .iter()
        .filter_map(|key| store.get(key))
        .map(|one| one.spec.image.len())
        .sum();
    meter::say(
        "read each",
        if length > 0 { keys.len() } else { 0 },
        meter::cpu() - began,
        0.0,
    );
    Ok(())
}

/// Lists all Pods into a cache that a watch follows, and then reads all of them, twice.
async fn sync_pods(client: Client) -> Result<()> {
    Api::<Namespace>::all(client.clone())
        .list(&ListParams::default())
        .await?;
    let (began, before) = (meter::cpu(), meter::memory());
    let (store, writer) = reflector::store();
    let stream = watcher(Api::<Pod>::all(client), watcher::Config::default());
    tokio::spawn(
        stream
            .default_backoff()
            .reflect(writer)
            .touched_objects()
            .for_each(|_| ready(())),
    );
    store.wait_until_ready().await?;
    let number = store.len();
    meter::say(
        "synced",
        number,
        meter::cpu() - began,
        meter::memory() - before,
    );
    for phase in ["read all", "read again"] {
        let rounds = 100; // one takes microseconds
        let began = meter::cpu();
        let running: usize = (0..rounds).map(|_| read_all(&store)).sum();
        meter::say(
            phase,
            running / rounds,
            (meter::cpu() - began) / rounds as f64,
            0.0,
        );
    }
    Ok(())
}

fn read_all(store: &Store<Pod>) -> usize {
    let pods = store.state();
    let has_image = |pod: &Pod| {
        pod.spec
            .as_ref()
            .is_some_and(|spec| spec.containers[0].image.is_some())
    };
    let is_running = |pod: &Pod| {
        pod.status
            .as_ref()
            .is_some_and(|status| status.phase.as_deref() == Some("Running"))
    };
    pods.iter()
        .filter(|pod| has_image(pod) && is_running(pod))
        .count()
}

/// The reconciles until now, and how many are waited for.
#[derive(Default)]
struct Counter {
    seen: AtomicUsize,
    until: AtomicUsize,
    reached: Notify,
}

impl Counter {
    fn expect(&self, more: usize) {
        self.until.fetch_add(more, Ordering::SeqCst);
    }

    fn count(&self) {
        let seen = self.seen.fetch_add(1, Ordering::SeqCst) + 1;
        if seen == self.until.load(Ordering::SeqCst) {
            self.reached.notify_one();
        }
    }
}

async fn count_site(site: Arc<Website>, counter: Arc<Counter>) -> Result<Action, kube::Error> {
    if !site.spec.image.is_empty() {
        counter.count();
    }
    Ok(Action::await_change())
}

/// A controller that only reads the typed object, with the predicate of generations.
fn spawn_controller(
    client: Client,
    counter: Arc<Counter>,
    concurrency: u16,
    more: Option<UnboundedReceiver<ObjectRef<Website>>>,
) -> Store<Website> {
    let (store, writer) = reflector::store();
    let sites = watcher(Api::<Website>::all(client), watcher::Config::default())
        .default_backoff()
        .reflect(writer)
        .applied_objects()
        .predicate_filter(predicates::generation, Default::default());
    let mut controller = Controller::for_stream(sites, store.clone())
        .with_config(Config::default().concurrency(concurrency));
    if let Some(refs) = more {
        controller = controller.reconcile_on(refs);
    }
    let policy =
        |_: Arc<Website>, _: &kube::Error, _: Arc<Counter>| Action::requeue(Duration::from_secs(1));
    tokio::spawn(
        controller
            .run(count_site, policy, counter)
            .for_each(|_| ready(())),
    );
    store
}

/// Reconciles each Website once, and again whenever the benchmark has changed all of them.
async fn storm(client: Client, count: usize, concurrency: u16) -> Result<()> {
    let counter = Arc::new(Counter::default());
    counter.expect(count);
    spawn_controller(client, counter.clone(), concurrency, None);
    counter.reached.notified().await;
    meter::say("watching", count, 0.0, 0.0);
    let mut commands = meter::commands();
    while commands.next_line().await?.is_some() {
        counter.expect(count);
        let began = meter::cpu();
        meter::say("begun", 0, 0.0, 0.0);
        counter.reached.notified().await;
        meter::say("watched", count, meter::cpu() - began, 0.0);
    }
    Ok(())
}

/// Reconciles all keys again and again, without a change.
async fn noop(client: Client, count: usize, rounds: usize, concurrency: u16) -> Result<()> {
    let counter = Arc::new(Counter::default());
    counter.expect(count);
    let (sender, refs) = unbounded();
    let store = spawn_controller(client, counter.clone(), concurrency, Some(refs));
    counter.reached.notified().await;
    let keys: Vec<ObjectRef<Website>> = store
        .state()
        .iter()
        .map(|one| ObjectRef::from_obj(one.as_ref()))
        .collect();
    let began = meter::cpu();
    for _ in 0..rounds {
        counter.expect(keys.len());
        for key in &keys {
            sender.unbounded_send(key.clone())?;
        }
        counter.reached.notified().await;
    }
    meter::say("reconciled", rounds * keys.len(), meter::cpu() - began, 0.0);
    Ok(())
}

/// Ends at the first reconcile, with what the process has taken until then.
async fn start(client: Client) -> Result<()> {
    let counter = Arc::new(Counter::default());
    counter.expect(1);
    spawn_controller(client, counter.clone(), 4, None);
    counter.reached.notified().await;
    meter::say("started", 1, meter::cpu(), meter::memory());
    Ok(())
}
