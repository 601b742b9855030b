//! An operator as people write them with kube-rs: nothing in it knows which server it talks to.
//!
//! `rust-operator crd` prints the definition of its kind; without a word it works until it is told to end.

mod controller;
mod leader;
mod note;

use anyhow::Result;
use kube::{Client, CustomResourceExt};
use tracing_subscriber::EnvFilter;

#[tokio::main]
async fn main() -> Result<()> {
    if std::env::args().nth(1).as_deref() == Some("crd") {
        println!("{}", serde_json::to_string_pretty(&note::Note::crd())?);
        return Ok(());
    }
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .init();
    let client = Client::try_default().await?;
    let mut leader = leader::Leader::new(client.clone());
    leader.wait_elected().await;
    tokio::select! {
        _ = controller::run(client) => Ok(()),
        lost = leader.keep() => Err(lost),
    }
}
