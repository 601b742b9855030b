//! One of several replicas leads: whoever holds the Lease and renews it.

use std::time::Duration;

use anyhow::{Error, anyhow};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::controller::REGISTRY;

const NAME: &str = "rust-operator";
const TTL: Duration = Duration::from_secs(6);
const RETRY: Duration = Duration::from_secs(1);

pub struct Leader {
    leases: Api<Lease>,
    holder: String,
    /// What another replica said when it last renewed, and when we saw that: the clocks of others may be wrong.
    seen: Option<(Option<MicroTime>, Instant)>,
}

impl Leader {
    pub fn new(client: Client) -> Self {
        let host = std::env::var("HOSTNAME").unwrap_or_else(|_| NAME.into());
        Self {
            leases: Api::namespaced(client, REGISTRY),
            holder: format!("{host}_{}", std::process::id()),
            seen: None,
        }
    }

    /// Waits until the Lease is ours.
    pub async fn wait_elected(&mut self) {
        while !self.is_leading().await.unwrap_or(false) {
            sleep(RETRY).await;
        }
        info!("leading");
    }

    /// Renews the Lease; returns only when it is lost, and then the process has to end.
    pub async fn keep(&mut self) -> Error {
        let mut renewed = Instant::now();
        while renewed.elapsed() < TTL {
            sleep(RETRY).await;
            match self.is_leading().await {
                Some(true) => renewed = Instant::now(),
                Some(false) => return anyhow!("another replica leads"),
                None => {}
            }
        }
        anyhow!("the lease could not be renewed")
    }

    /// Whether the Lease is ours; nothing when nobody answers.
    async fn is_leading(&mut self) -> Option<bool> {
        match self.take().await {
            Ok(taken) => Some(taken),
            // Somebody else has written it in the meantime.
            Err(kube::Error::Api(status)) if status.code == 409 => Some(false),
            Err(error) => {
                warn!(%error, "the lease cannot be read or written");
                None
            }
        }
    }

    /// Takes or renews the Lease, unless somebody else holds it.
    async fn take(&mut self) -> Result<bool, kube::Error> {
        let Some(mut lease) = self.leases.get_opt(NAME).await? else {
            let metadata = ObjectMeta {
                name: Some(NAME.into()),
                ..ObjectMeta::default()
            };
            let spec = Some(self.renewed(LeaseSpec::default()));
            self.leases
                .create(&PostParams::default(), &Lease { metadata, spec })
                .await?;
            return Ok(true);
        };
        let spec = lease.spec.unwrap_or_default();
        if self.is_held_by_another(&spec) {
            return Ok(false);
        }
        // With the resourceVersion that was read: of two that try, one gets a conflict.
        lease.spec = Some(self.renewed(spec));
        self.leases
            .replace(NAME, &PostParams::default(), &lease)
            .await?;
        Ok(true)
    }

    fn is_held_by_another(&mut self, spec: &LeaseSpec) -> bool {
        match &spec.holder_identity {
            Some(holder) if !holder.is_empty() && *holder != self.holder => {}
            _ => return false,
        }
        match &self.seen {
            Some((renewed, at)) if *renewed == spec.renew_time => at.elapsed() < TTL,
            _ => {
                self.seen = Some((spec.renew_time.clone(), Instant::now()));
                true
            }
        }
    }

    fn renewed(&self, spec: LeaseSpec) -> LeaseSpec {
        let now = Some(MicroTime(Timestamp::now()));
        let is_ours = spec.holder_identity.as_ref() == Some(&self.holder);
        let transitions = spec.lease_transitions.unwrap_or(0);
        LeaseSpec {
            holder_identity: Some(self.holder.clone()),
            lease_duration_seconds: Some(TTL.as_secs() as i32),
            acquire_time: if is_ours {
                spec.acquire_time
            } else {
                now.clone()
            },
            lease_transitions: Some(transitions + i32::from(!is_ours)),
            renew_time: now,
            ..spec
        }
    }
}
