//! Keeps a ConfigMap for each note, and an entry in a registry that a finalizer takes out again.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::finalizer::{Event as Finalizer, finalizer};
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;
use tracing::{info, warn};

use crate::note::Note;

/// A namespace of its own. Nothing there can be owned by a note, so that a finalizer has to clean up.
pub const REGISTRY: &str = "rust-registry";
const OPERATOR: &str = "rust-operator";
const FINALIZER: &str = "rust.example.com/registered";

struct Context {
    client: Client,
    recorder: Recorder,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the server refused: {0}")]
    Kube(#[from] kube::Error),
    #[error("the finalizer failed: {0}")]
    Finalizer(#[source] Box<kube::runtime::finalizer::Error<Error>>),
    #[error("the object has no {0}")]
    Incomplete(&'static str),
}

/// Works until the process is told to end.
pub async fn run(client: Client) {
    let recorder = Recorder::new(client.clone(), Reporter::from(OPERATOR));
    let context = Arc::new(Context {
        client: client.clone(),
        recorder,
    });
    Controller::new(Api::<Note>::all(client.clone()), watcher::Config::default())
        .owns(Api::<ConfigMap>::all(client), watcher::Config::default())
        .shutdown_on_signal()
        .run(
            reconcile,
            |_, _, _| Action::requeue(Duration::from_secs(1)),
            context,
        )
        .for_each(|done| async {
            match done {
                Ok((note, _)) => info!(%note, "reconciled"),
                Err(error) => warn!(%error, "not reconciled"),
            }
        })
        .await;
}

async fn reconcile(note: Arc<Note>, context: Arc<Context>) -> Result<Action, Error> {
    let namespace = note.namespace().ok_or(Error::Incomplete("namespace"))?;
    let notes: Api<Note> = Api::namespaced(context.client.clone(), &namespace);
    finalizer(&notes, FINALIZER, note, |event| async {
        match event {
            Finalizer::Apply(note) => apply(&notes, &note, &context).await,
            Finalizer::Cleanup(note) => clean_up(&note, &context).await,
        }
    })
    .await
    .map_err(|error| Error::Finalizer(Box::new(error)))
}

/// Makes the world look as a note says; everything is applied on the side of the server.
async fn apply(notes: &Api<Note>, note: &Note, context: &Context) -> Result<Action, Error> {
    let ours = PatchParams::apply(OPERATOR).force();
    let name = note.name_any();
    let entry = config_map(&entry_of(note), REGISTRY, note);
    let registry: Api<ConfigMap> = Api::namespaced(context.client.clone(), REGISTRY);
    registry
        .patch(&entry_of(note), &ours, &Patch::Apply(&entry))
        .await?;

    let namespace = note.namespace().ok_or(Error::Incomplete("namespace"))?;
    let mut child = config_map(&name, &namespace, note);
    child.metadata.owner_references = Some(vec![
        note.controller_owner_ref(&())
            .ok_or(Error::Incomplete("uid"))?,
    ]);
    let children: Api<ConfigMap> = Api::namespaced(context.client.clone(), &namespace);
    children.patch(&name, &ours, &Patch::Apply(&child)).await?;

    let status = json!({
        "apiVersion": Note::api_version(&()), "kind": Note::kind(&()),
        "status": {"text": note.spec.text, "observedGeneration": note.metadata.generation},
    });
    notes
        .patch_status(&name, &ours, &Patch::Apply(&status))
        .await?;
    if note.status.as_ref().and_then(|status| status.text.as_ref()) != Some(&note.spec.text) {
        tell(
            note,
            context,
            "Deployed",
            format!("says {}", note.spec.text),
        )
        .await?;
    }
    Ok(Action::await_change())
}

/// Takes the note out of the registry.
async fn clean_up(note: &Note, context: &Context) -> Result<Action, Error> {
    let registry: Api<ConfigMap> = Api::namespaced(context.client.clone(), REGISTRY);
    match registry
        .delete(&entry_of(note), &DeleteParams::default())
        .await
    {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => return Err(error.into()),
    }
    tell(
        note,
        context,
        "Unregistered",
        "is not in the registry any more".into(),
    )
    .await?;
    Ok(Action::await_change())
}

async fn tell(note: &Note, context: &Context, reason: &str, text: String) -> Result<(), Error> {
    let event = Event {
        type_: EventType::Normal,
        reason: reason.into(),
        note: Some(text),
        action: "Reconcile".into(),
        secondary: None,
    };
    Ok(context
        .recorder
        .publish(&event, &note.object_ref(&()))
        .await?)
}

fn config_map(name: &str, namespace: &str, note: &Note) -> ConfigMap {
    let data = [
        ("text".to_owned(), note.spec.text.clone()),
        ("copies".to_owned(), note.spec.copies.to_string()),
    ];
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(data.into()),
        ..ConfigMap::default()
    }
}

fn entry_of(note: &Note) -> String {
    format!(
        "{}.{}",
        note.namespace().unwrap_or_default(),
        note.name_any()
    )
}
