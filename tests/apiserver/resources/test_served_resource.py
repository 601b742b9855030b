from levelset.apiserver.resources.served_resource import ServedResource

WIDGETS = ServedResource("example.com", "v2", "Widget", "widgets", "widget", "WidgetList", True, "v1")
NODES = ServedResource("", "v1", "Node", "nodes", "node", "NodeList", False, "v1")


def test_a_storage_key_has_group_resource_namespace_and_name() -> None:
    assert WIDGETS.key("x", "a") == "/registry/example.com/widgets/x/a"
    assert NODES.key(None, "a") == "/registry/core/nodes/a"


def test_a_storage_prefix_is_of_a_namespace_or_of_all_objects() -> None:
    assert WIDGETS.prefix_in("x") == "/registry/example.com/widgets/x/"
    assert WIDGETS.prefix_in(None) == "/registry/example.com/widgets/"
    assert NODES.prefix_in("x") == "/registry/core/nodes/"


def test_a_resource_has_derived_names() -> None:
    assert (WIDGETS.api_version, WIDGETS.storage_api_version) == ("example.com/v2", "example.com/v1")
    assert WIDGETS.gvk == ("example.com", "v2", "Widget")
    assert (WIDGETS.qualified, NODES.qualified) == ("widgets.example.com", "nodes")
    assert NODES.api_version == "v1"


def test_the_storage_group_decides_the_storage_prefix() -> None:
    view = ServedResource("events.k8s.io", "v1", "Event", "events", "event", "EventList", True, "v1", storage_group="")
    assert view.prefix == "/registry/core/events/"
    assert view.storage_api_version == "v1"


def test_a_resource_without_a_schema_accepts_everything() -> None:
    assert WIDGETS.schema() is None
    assert WIDGETS.columns == ()
    assert WIDGETS.shape().fields == {}
