"""`model` in an answer becomes the alias, and no other byte changes."""

import json

import pytest

from pulumi_infercrane.router.protocol.answer_alias import AnswerAlias

CHAT = AnswerAlias("chat")
RESPONSES = AnswerAlias("chat", in_response=True)

REPLACED = {
    "alone": ('{"model":"org/m"}', '{"model":"chat"}'),
    "between others": ('{"id":"1","model":"org/m","n":1.50}', '{"id":"1","model":"chat","n":1.50}'),
    "with blanks": (' {\r\n "model"\t: "m" , "n" : 1 } \n', ' {\r\n "model"\t: "chat" , "n" : 1 } \n'),
    "empty": ('{"model":""}', '{"model":"chat"}'),
    "with escapes in it": ('{"model":"a\\"b\\\\","n":1}', '{"model":"chat","n":1}'),
    "beside escapes": ('{"x":"\\u4f60\\ud800\\n","model":"m"}', '{"x":"\\u4f60\\ud800\\n","model":"chat"}'),
    "beside other letters": ('{"é":"🙂","model":"é","x":"é"}', '{"é":"🙂","model":"chat","x":"é"}'),
    "spelled with escapes": ('{"x":"🙂","\\u006dod\\u0065l":"m"}', '{"x":"🙂","\\u006dod\\u0065l":"chat"}'),
    "twice": ('{"model":"a","x":{},"model":"b"}', '{"model":"chat","x":{},"model":"chat"}'),
    "once a string": ('{"model":1,"model":"b"}', '{"model":1,"model":"chat"}'),
    "once spelled": ('{"model":"a","\\u006Dodel":"b"}', '{"model":"chat","\\u006Dodel":"chat"}'),
    "beside the word": ('{"object":"model","model":"m"}', '{"object":"model","model":"chat"}'),
    "beside inner ones": ('{"x":[{"model":"i"}],"model":"m"}', '{"x":[{"model":"i"}],"model":"chat"}'),
    "beside one in a text": (
        '{"x":"{\\"model\\":\\"i\\"}","model":"m"}',
        '{"x":"{\\"model\\":\\"i\\"}","model":"chat"}',
    ),
    "beside a large number": ('{"x":1e400,"y":{"model":1},"model":"m"}', '{"x":1e400,"y":{"model":1},"model":"chat"}'),
}


@pytest.mark.parametrize(("document", "renamed"), REPLACED.values(), ids=REPLACED)
def test_the_value_is_replaced(document: str, renamed: str) -> None:
    assert CHAT.put_in(document.encode()).decode() == renamed


LEFT = {
    "no JSON": b'{"model":"m"',
    "more than JSON": b'{"model":"m"}{"model":"m"}',
    "no object": b'["model","m"]',
    "no JSON number": b'{"model":"m","x":NaN}',
    "no UTF-8": b'{"model":"m","x":"\xff"}',
    "no string": b'{"model":null,"x":"\\u006d"}',
    "an object": b'{"model":{"model":"m"}}',
    "inner ones": b'{"x":{"model":"m"},"y":[{"model":"m"}]}',
    "the word": b'{"object":"model"}',
    "one in a text": b'{"x":"\\"model\\":\\"m\\""}',
    "another name": b'{"Model":"m","models":"m","x\\"model":"m"}',
    "nested too deeply": b'{"x":%b"model"%b,"model":"m"}' % (b"[" * 1022, b"]" * 1022),
    "of responses": b'{"response":{"model":"m"}}',
    "done": b"[DONE]",
    "nothing": b"",
}


@pytest.mark.parametrize("document", LEFT.values(), ids=LEFT)
def test_everything_else_is_left_alone(document: bytes) -> None:
    assert CHAT.put_in(document) is document


def test_an_alias_is_written_as_json() -> None:
    renamed = AnswerAlias('a "b" \\c').put_in(b'{"model":"m"}')
    assert json.loads(renamed) == {"model": 'a "b" \\c'}


@pytest.mark.parametrize(
    ("document", "renamed"),
    [
        (b'{"response": {"id":1, "model":"m"} }', b'{"response": {"id":1, "model":"chat"} }'),
        (b'{"model":"m","response":{"model":"m"}}', b'{"model":"chat","response":{"model":"chat"}}'),
        (
            b'{"response":{"tools":[{"model":"t"}],"model":"m"}}',
            b'{"response":{"tools":[{"model":"t"}],"model":"chat"}}',
        ),
        (b'{"response":"model"}', b'{"response":"model"}'),
        (b'{"response":{"model":{"model":"m"}}}', b'{"response":{"model":{"model":"m"}}}'),
        (b'{"response":[{"model":"m"}]}', b'{"response":[{"model":"m"}]}'),
        (b'{"x":{"response":{"model":"m"}}}', b'{"x":{"response":{"model":"m"}}}'),
    ],
)
def test_the_response_in_an_event_has_a_model_too(document: bytes, renamed: bytes) -> None:
    assert RESPONSES.put_in(document) == renamed
