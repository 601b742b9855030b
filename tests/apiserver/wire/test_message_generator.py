"""The scripts that write the tables of protobuf messages, on sources small enough to be read here."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).parents[3] / "scripts"

PROTO = """
syntax = "proto2";

message Thing {
  // metadata is what it is called. optional string ignored = 9;
  optional .k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta metadata = 1;

  optional ThingSource source = 2;

  repeated string names = 3;

  map<string, bytes> data = 4;

  optional int32 count = 5;

  optional int64 size = 6;

  map<string, Extra> extra = 7;
}

message ThingSource {
  optional bool flag = 1;
}

message Extra {
  // items is the list
  repeated string items = 1;
}
"""
GO = """
package v1

type Thing struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	ThingSource `json:",inline" protobuf:"bytes,2,opt,name=source"`
	Names []string `json:"names,omitempty" protobuf:"bytes,3,rep,name=names"`
	Data map[string][]byte `json:"data,omitempty" protobuf:"bytes,4,rep,name=data"`
	// Commented *int32 `json:"wrong,omitempty" protobuf:"varint,5,opt,name=wrong"`
	Count *int32 `json:"howMany,omitempty" protobuf:"varint,5,opt,name=count"`
	Size  int64  `json:"size,omitempty" protobuf:"varint,6,opt,name=size"`
	Extra map[string]Extra `json:"extra,omitempty" protobuf:"bytes,7,rep,name=extra"`
}

type ThingSource struct {
	Flag bool `json:"flag" protobuf:"varint,1,opt,name=flag"`
}

type Extra []string
"""
META = """
message ObjectMeta {
  optional string name = 1;
}
"""


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    for folder, proto, go in (
        ("k8s.io/api/things/v1", PROTO, GO),
        ("k8s.io/apimachinery/pkg/apis/meta/v1", META, "package v1\n"),
    ):
        place = tmp_path / folder
        place.mkdir(parents=True)
        (place / "generated.proto").write_text(proto)
        (place / "types.go").write_text(go)
    return tmp_path


def test_messages_have_numbers_from_protobuf_and_names_from_go(sources: Path) -> None:
    reader = load("generate_protobuf").Reader(sources)
    assert reader.add("k8s.io/api/things/v1", "Thing") == "things.v1.Thing"
    assert reader.found == {
        "things.v1.Thing": (
            "1 metadata meta.v1.ObjectMeta,2 - things.v1.ThingSource,3 names +s,4 data %b,5 howMany i,6 size ?l,"
            "7 extra %things.v1.Extra"
        ),
        "things.v1.ThingSource": "1 flag t",
        "things.v1.Extra": "1 [] +s",
        "meta.v1.ObjectMeta": "1 name s",
    }


def test_messages_of_openapi_have_the_names_of_json() -> None:
    source = """
message Document {
  string swagger = 1;
  repeated Schema schemas = 2;
}

message Schema {
  oneof oneof {
    string _ref = 1;
    double multiple_of = 6;
  }
  google.protobuf.Any value = 7;
}

message Unused {
  string it = 1;
}
"""
    made = json.loads(load("generate_openapi_messages").render(source))
    assert made["messages"] == {"Document": "1 swagger s,2 schemas +Schema", "Schema": "1 $ref s,6 multipleOf d"}
