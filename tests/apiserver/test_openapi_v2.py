import json

from levelset.apiserver.openapi_v2 import JSON_DOCUMENT, PROTOBUF_DOCUMENT


def fields(message: bytes) -> dict[int, bytes]:
    """The fields of a protobuf message whose fields are all short and made of bytes."""
    found: dict[int, bytes] = {}
    while message:
        tag, size = message[0], message[1]
        assert tag & 7 == 2
        found[tag >> 3], message = message[2 : 2 + size], message[2 + size :]
    return found


def test_the_protobuf_document_says_what_the_json_document_says() -> None:
    document, told = fields(PROTOBUF_DOCUMENT), json.loads(JSON_DOCUMENT)
    assert document[1].decode() == told["swagger"] == "2.0"
    info = fields(document[2])
    assert {"title": info[1].decode(), "version": info[2].decode()} == told["info"]
    assert (document[8], document[9]) == (b"", b"")
    assert (told["paths"], told["definitions"]) == ({}, {})
