import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.http import der
from levelset.http.certificate_authority import CertificateRequest, CertificateUse, Identity
from levelset.http.x509_signing import load_signer, sign

MADE = sign(CertificateRequest(use=CertificateUse.AUTHORITY, name="root", within=1))
CERTIFICATE = der.from_pem("CERTIFICATE", MADE.certificate) or b""


@pytest.mark.parametrize(
    ("value", "written"),
    [(0, "020100"), (127, "02017f"), (128, "02020080"), (256, "02020100"), (1 << 64, "0209010000000000000000")],
)
def test_an_integer_is_encoded_in_as_few_bytes_as_possible(value, written):
    assert der.number(value).hex() == written


@pytest.mark.parametrize(
    ("text", "written"), [("2.5.29.17", "0603551d11"), ("1.2.840.10045.4.3.2", "06082a8648ce3d040302")]
)
def test_an_object_identifier_is_written_in_base_128(text, written):
    assert der.oid(text).hex() == written


@given(st.lists(st.binary(max_size=300), max_size=5))
def test_concatenated_values_can_be_split_again(contents):
    values = [der.tagged(der.OCTETS, content) for content in contents]
    assert der.parts(der.value_of(der.tagged(der.SEQUENCE, *values))) == values
    assert [der.value_of(value) for value in values] == contents


@given(st.binary(max_size=200))
def test_pem_holds_any_data(data):
    assert der.from_pem("X", b"before\n" + der.to_pem("X", data)) == data
    assert der.from_pem("Y", der.to_pem("X", data)) is None


@given(st.integers(0, len(CERTIFICATE) - 1), st.integers(0, 255))
def test_a_damaged_authority_is_refused_or_harmless(place, byte):
    damaged = CERTIFICATE[:place] + bytes([byte]) + CERTIFICATE[place + 1 :]
    for data in (damaged, damaged[:place]):
        try:
            load_signer(Identity(der.to_pem("CERTIFICATE", data), MADE.key))
        except ValueError:
            continue
