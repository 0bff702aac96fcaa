"""The fields of requests for chat completions, and the refusals of those that cannot be met."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from allyouneed.data.strict_json import parse_object
from allyouneed.errors import DataError
from allyouneed.serve.refusal import Refusal
from allyouneed.serve.server_settings import MOST_BEAMS, MOST_FIELDS

_DEMANDING: Final[Mapping[str, tuple[Any, ...]]] = {
    "audio": (),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "logprobs": (False,),
    "modalities": (["text"],),
    "response_format": ({"type": "text"},),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "top_logprobs": (0,),
}
"""Settings that ask for what a translator does not do, with the values that do not."""
_MOST_STOPS: Final = 4


class Wrong(Refusal):
    """A refused field.

    Args:
        param: Its name.
        message: What is wrong with it.
        status: HTTP status code.
        label: OpenAI's name for the reason, if it has one.
    """

    def __init__(self, param: str | None, message: str, status: int = 400, label: str = "") -> None:
        super().__init__(status, label, message)
        self.param = param


@dataclass(frozen=True)
class Completion:
    """What a request asks for."""

    model: str
    text: str
    """The last message of the user."""
    prompt: str
    """The messages of the system."""
    num_choices: int
    is_streamed: bool
    has_usage: bool
    """Whether a stream ends with the usage."""
    stops: tuple[str, ...]
    """Sequences before the first of which a translation is cut."""

    def cut(self, text: str) -> tuple[str, bool]:
        """Cut a translation at the stop sequence that is complete first; return whether there is one."""
        found = [(start + len(stop), start) for stop in self.stops if (start := text.find(stop)) >= 0]
        return (text[: min(found)[1]], True) if found else (text, False)

    def certain(self, text: str) -> str:
        """What is shown of a translation that goes on: not its last characters, which may begin a stop."""
        shown, is_cut = self.cut(text)
        kept = 0 if is_cut else max(map(len, self.stops), default=1) - 1
        return shown[: max(0, len(shown) - kept)]


def read_completion(body: bytes) -> Completion:
    """Read a request for a chat completion.

    Fields of sampling, accounts and other servers are ignored, as by other servers of this protocol: a search
    for the best translation has no use for them.

    Raises:
        Wrong: It is not JSON, or a field is missing or has a value that is not supported.
    """
    fields = _fields(body)
    is_streamed = _boolean(fields, "stream")
    return Completion(
        _model(fields),
        _text_to_translate(fields.get("messages")),
        _prompt(fields["messages"]),
        _num_choices(fields.get("n", 1), is_streamed),
        is_streamed,
        _has_usage(fields.get("stream_options"), is_streamed),
        _stops(fields.get("stop")),
    )


def _fields(body: bytes) -> dict[str, Any]:
    """The fields that have a value."""
    try:
        fields = parse_object(body.decode(), MOST_FIELDS)
    except (UnicodeDecodeError, DataError):
        raise Wrong(None, "We could not parse the JSON body of your request.") from None
    fields = {name: value for name, value in fields.items() if value is not None}
    for name, harmless in _DEMANDING.items():
        if name in fields and fields[name] not in harmless:
            raise Wrong(name, f"'{name}' is not supported with this model.", label="unsupported_parameter")
    return fields


def _model(fields: Mapping[str, Any]) -> str:
    model = fields.get("model")
    if not model:
        raise Wrong(None, "you must provide a model parameter")
    if not isinstance(model, str):
        raise Wrong("model", "Invalid type for 'model': expected a string.", label="invalid_type")
    return model


def _text_to_translate(messages: Any) -> str:
    """The content of the last message whose role is the user's."""
    if messages is None:
        message = "Missing required parameter: 'messages'."
        raise Wrong("messages", message, label="missing_required_parameter")
    if not isinstance(messages, list) or not all(isinstance(each, dict) for each in messages):
        message = "Invalid type for 'messages': expected an array of objects."
        raise Wrong("messages", message, label="invalid_type")
    for number, each in reversed(list(enumerate(messages))):
        if each.get("role") == "user":
            return _text(each.get("content"), f"messages[{number}].content")
    raise Wrong("messages", "'messages' has no message of the role 'user'; its last one is translated.")


def _prompt(messages: list[dict[str, Any]]) -> str:
    """The texts of the messages whose role is the system's, or the developer's as it is called since 2024."""
    contents = [each.get("content") for each in messages if each.get("role") in ("system", "developer")]
    parts = [part for each in contents for part in (each if isinstance(each, list) else [each])]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    return "\n".join(text for text in texts if isinstance(text, str))


def _text(content: Any, param: str) -> str:
    """The text of a message: a string, or parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        message = f"Invalid type for '{param}': expected a string or an array of text parts."
        raise Wrong(param, message, label="invalid_type")
    parts = [part for part in content if isinstance(part, dict) and part.get("type") == "text"]
    texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
    if len(texts) < len(content):
        raise Wrong(param, f"'{param}' has parts that are not text.", label="invalid_value")
    return "".join(texts)


def _num_choices(n: Any, is_streamed: bool) -> int:
    most = 1 if is_streamed else MOST_BEAMS
    if type(n) is not int:
        raise Wrong("n", "Invalid type for 'n': expected an integer.", label="invalid_type")
    if not 1 <= n <= most:
        how = "a stream has one choice" if is_streamed else f"expected 1 to {most}"
        raise Wrong("n", f"Invalid value for 'n': {how}.", label="invalid_value")
    return n


def _has_usage(options: Any, is_streamed: bool) -> bool:
    if options is None:
        return False
    if not isinstance(options, dict) or not is_streamed:
        message = "'stream_options' is an object, and only allowed when 'stream' is true."
        raise Wrong("stream_options", message)
    return _boolean(options, "include_usage")


def _stops(value: Any) -> tuple[str, ...]:
    stops = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(stops, list) or not all(isinstance(each, str) for each in stops):
        message = "Invalid type for 'stop': expected a string or an array of strings."
        raise Wrong("stop", message, label="invalid_type")
    if len(stops) > _MOST_STOPS:
        message = f"Invalid 'stop': expected at most {_MOST_STOPS} strings."
        raise Wrong("stop", message, label="array_above_max_length")
    return tuple(filter(None, stops))


def _boolean(fields: Mapping[str, Any], name: str) -> bool:
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise Wrong(name, f"Invalid type for '{name}': expected a boolean.", label="invalid_type")
    return value
