//! The kind that this operator works with: a note, which becomes a ConfigMap.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "rust.example.com",
    version = "v1",
    kind = "Note",
    namespaced,
    status = "NoteStatus",
    printcolumn = r#"{"name": "Text", "type": "string", "jsonPath": ".spec.text"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct NoteSpec {
    /// What is written on it.
    #[schemars(length(min = 1))]
    pub text: String,
    /// How many copies there are of it.
    #[serde(default = "one")]
    pub copies: i32,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NoteStatus {
    pub text: Option<String>,
    pub observed_generation: Option<i64>,
}

fn one() -> i32 {
    1
}
