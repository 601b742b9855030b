"""The functions of all CEL libraries."""

import pytest

from tests.cel.evaluation import evaluate, failure

TRUE = """
'tacocat'.charAt(3) == 'o'
'hello mellow'.indexOf('ello', 2) == 7
'hello mellow'.lastIndexOf('ello') == 7
'hello mellow'.lastIndexOf('ello', 6) == 1
['a', 'b'].join('-') == 'a-b'
'TacoCÆt'.lowerAscii() == 'tacocÆt'
'tacoCæt'.upperAscii() == 'TACOCæT'
'hello hello'.replace('he', 'we', 1) == 'wello hello'
'a,b,c'.split(',', 2) == ['a', 'b,c']
'abc'.split('') == ['a', 'b', 'c']
'tacocat'.substring(0, 4) == 'taco'
'  trim\\n '.trim() == 'trim'
strings.quote('a"b') == '"a\\\\"b"'
'%s|%d|%.2f|%x|%b|%%'.format(['a', 12, 1.5, 255, 5]) == 'a|12|1.50|ff|101|%'
'%s'.format([[1, 'a', true, null]]) == '[1, a, true, null]'
'%s'.format([{'b': 1, 'a': 2}]) == '{a: 2, b: 1}'
size('é☃') == 2
'abc'.contains('b') && 'abc'.endsWith('c')
int('-42') == -42 && int(3.9) == 3 && int(duration('1s')) == 1000000000
uint(5) == 5u && double('1.5') == 1.5
string(1.0) == '1' && string(1e30) == '1e+30' && string(b'abc') == 'abc'
string(duration('1h1.5s')) == '3601.5s'
string(timestamp('2020-01-01T01:00:00.5+01:00')) == '2020-01-01T01:00:00.5+01:00'
bool('true') && !bool('f')
bytes('é') == b'\\xc3\\xa9'
timestamp('2020-02-29T12:30:45.123Z').getMilliseconds() == 123
timestamp('2020-02-29T23:30:45Z').getDate('Asia/Tokyo') == 1
timestamp('2020-02-29T23:30:45Z').getHours('-02:00') == 21
timestamp('2020-01-01T00:00:00Z').getDayOfYear() == 0 && timestamp('2020-01-05T00:00:00Z').getDayOfWeek() == 0
duration('1h30m').getMinutes() == 90
timestamp('2020-01-02T00:00:00Z') - timestamp('2020-01-01T00:00:00Z') == duration('24h')
[1, 2, 2].isSorted() && ![2, 1].isSorted()
[1, 3].sum() == 4 && [1.5, 1.5].sum() == 3.0 && [duration('1m'), duration('1s')].sum() == duration('61s')
[3, 1, 2].min() == 1 && ['b', 'c'].max() == 'c'
[1, 2, 2, 3].indexOf(2) == 1 && [1, 2, 2].lastIndexOf(2) == 2
[1, 2, 3, 4].slice(1, 3) == [2, 3]
[[1, 2], [3]].flatten() == [1, 2, 3]
[3, 1, 2].sort() == [1, 2, 3] && [1, 2, 1].distinct() == [1, 2]
lists.range(3) == [0, 1, 2] && [1, 2].reverse() == [2, 1]
[1, 2].first().value() == 1 && [1, 2].last().value() == 2
sets.contains([1, 2], [2]) && !sets.intersects([1], [2]) && sets.equivalent([1, 1, 2], [2, 1])
'abc 123'.find('[0-9]+') == '123' && '123 abc 456'.findAll('[0-9]+') == ['123', '456']
'123 abc 456'.findAll('[0-9]+', 1) == ['123'] && 'abc'.find('xyz') == ''
'abc'.matches('^a.c$') && matches('abc', 'b')
optional.ofNonZeroValue('').or(optional.of('b')).value() == 'b'
url('https://user:pass@example.com:80/path?k=a&k=b#f').getHost() == 'example.com:80'
url('https://[::1]:80/').getHostname() == '::1' && url('https://a.b/').getPort() == ''
url('https://example.com/path with spaces/').getEscapedPath() == '/path%20with%20spaces/'
url('https://example.com/p?k1=a&k2=b&k2=c').getQuery() == {'k1': ['a'], 'k2': ['b', 'c']}
isURL('/absolute') && !isURL('../relative') && !isURL('https://a:b:c/')
quantity('1Gi').isGreaterThan(quantity('1G')) && quantity('50k').add(20) == quantity('50020')
quantity('200M').compareTo(quantity('0.2G')) == 0 && quantity('50k').sub(quantity('20k')).asInteger() == 30000
isQuantity('1.3Gi') && !isQuantity('200K') && quantity('-1').sign() == -1 && !quantity('1m').isInteger()
ip('::1').family() == 6 && ip('127.0.0.1').isLoopback()
isIP('1.2.3.4') && !isIP('::ffff:1.2.3.4') && !isIP('01.2.3.4')
ip.isCanonical('2001:db8::abcd') && !ip.isCanonical('2001:DB8::ABCD') && string(ip('1.2.3.4')) == '1.2.3.4'
cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.0.0.0/8').containsCIDR(cidr('10.1.0.0/16'))
cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('::1/128').prefixLength() == 128 && !isCIDR('10.0.0.0/33')
cidr('192.168.0.1/24').ip() == ip('192.168.0.1') && ip('169.254.0.1').isLinkLocalUnicast()
semver('1.2.3-alpha.1').isLessThan(semver('1.2.3')) && semver('v1.2', true).minor() == 2 && !isSemver('v1.0')
semver('1.0.0').compareTo(semver('1.0.0+build')) == 0 && isSemver('01.01.01', true) && !isSemver('01.1.1')
!format.dns1123Label().validate('my-label').hasValue() && format.dns1123Label().validate('A').value().size() == 1
format.named('uuid').value().validate('nope').value() == ['does not match the UUID format']
!format.named('nothing').hasValue() && !format.qualifiedName().validate('a.io/b').hasValue()
!format.date().validate('2021-01-01').hasValue() && format.datetime().validate('x').hasValue()
jsonpatch.escapeKey('a/b~c') == 'a~1b~0c'
""".strip().splitlines()


@pytest.mark.parametrize("text", TRUE)
def test_a_function_returns_its_documented_value(text: str) -> None:
    assert evaluate(text) is True


FAILURES = [
    ("'abc'.charAt(4)", "index out of range: 4"),
    ("'abc'.substring(2, 1)", "invalid substring range. start: 2, end: 1"),
    ("[1].slice(0, 5)", "cannot slice(0, 5), list is length 1"),
    ("([1] + [2]).filter(i, i > 5).min()", "min called on empty list"),
    ("'%d'.format([dyn('a')])", "error during formatting: type conversion error from 'string' to 'int'"),
    ("'%s %s'.format(['a'] + [])", "index 1 out of range"),
    ("quantity(s)", "quantity parse error"),
    ("ip(s)", "IP Address 'b-c' parse error during conversion from string"),
    ("url(s)", "URL parse error during conversion from string"),
    ("semver(s)", "semver parse error during conversion from string"),
    ("s.matches(s + '(')", "error parsing regexp: missing closing )"),
    ("s.matches(s + '(abcdefghijklm){999}')", "error parsing regexp: expression too large"),
    ("[1, 2].flatten(-1)", "level must be non-negative"),
    ("int('12x' + '')", "type conversion error from 'string' to 'int'"),
    ("int(1e30 * 1.0)", "integer overflow"),
    ("timestamp(s)", "type conversion error from 'string' to 'google.protobuf.Timestamp'"),
    ("duration(s)", "invalid duration"),
    ("timestamp('2020-01-01T00:00:00Z').getHours('No/Where')", "unknown time zone No/Where"),
]


@pytest.mark.parametrize(("text", "message"), FAILURES, ids=[text for text, _ in FAILURES])
def test_a_function_that_fails_gives_the_reason(text: str, message: str) -> None:
    assert failure(text).startswith(message)
