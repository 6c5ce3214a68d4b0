"""A provider with OpenAI's Responses API, made of the types of the official `openai` package.

Each request must match the types of its parameters. Each event of a stream is built from the type list of the package, so a
type that the package adds is sent too. The port is the first line of the output. `GET /report` lists the problems found, and the types of
events that were not sent yet.
"""

import json
import types
import typing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pydantic
from openai.types import responses
from openai.types.responses import response_create_params as params

WORDS = "High tide is at nine."
ANSWER = json.dumps({"type": "text", "response": WORDS, "data": ""})
EVENTS = {
    typing.get_args(event.model_fields["type"].annotation)[0]: event
    for event in typing.get_args(typing.get_args(responses.ResponseStreamEvent)[0])
}
ITEMS = typing.get_args(typing.get_args(responses.ResponseOutputItem)[0])
REQUEST = pydantic.TypeAdapter(params.ResponseCreateParamsNonStreaming | params.ResponseCreateParamsStreaming)
FIELDS = {name for kind in (params.ResponseCreateParamsBase, params.ResponseCreateParamsStreaming) for name in typing.get_type_hints(kind)}
CITATION = {"type": "url_citation", "url": "https://tides.example", "title": "Tides", "start_index": 0, "end_index": 4}


def by_kind(*models):
    """Returns the request types by the values of their field `type`."""
    return {kind: model for model in models for kind in typing.get_args(typing.get_type_hints(model)["type"])}


TOOLS = by_kind(*typing.get_args(responses.ToolParam))
PARTS = by_kind(responses.ResponseInputTextParam, responses.ResponseInputImageParam, responses.ResponseInputFileParam)
# A kind of item that no version of the package has.
FUTURE = {"type": "of_the_future", "id": "future_1", "nested": {"kept": [1, None]}}

count = 0
sent = set()
problems = []
# The kinds of tools and of parts of messages in requests.
received = set()


def named(name):
    """Returns a text that differs from all others."""
    global count
    count += 1
    return f"{name}_{count}"


def value_of(annotation, name="value", depth=0):
    """Returns a value of a type, with only the required fields of nested models below the first levels."""
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return value_of(inside[0], name, depth)
    if origin is typing.Literal:
        return inside[0]
    if origin in (typing.Union, types.UnionType):
        known = [part for part in inside if part is not type(None)]
        return value_of(known[0], name, depth)
    if origin in (list, typing.List):
        return [value_of(inside[0], name, depth + 1)]
    if origin in (dict, typing.Dict) or annotation in (dict, object, typing.Any):
        return {}
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        fields = annotation.model_fields.items()
        return {key: value_of(field.annotation, key, depth + 1) for key, field in fields if field.is_required() or depth < 2}
    simple = {str: lambda: named(name), int: lambda: 1, float: lambda: 0.5, bool: lambda: False}
    return simple[annotation]()


def item_of(kind):
    item = value_of(kind)
    if item["type"] == "additional_tools":
        item["role"] = "developer"
    kind.model_validate(item)
    return item


def event(kind, **fields):
    """Returns an event of this type; other fields are made up."""
    model = EVENTS[kind]
    made = value_of(model, depth=2) | {"type": kind} | fields
    model.model_validate(made)
    sent.add(kind)
    return made


def response(status, output, **more):
    usage = {"input_tokens": 20, "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0}, "output_tokens": 7,
             "output_tokens_details": {"reasoning_tokens": 3}, "total_tokens": 27}
    made = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": status, "output": output, "error": None,
            "incomplete_details": None, "instructions": "x" * 1000, "metadata": {}, "parallel_tool_calls": True, "temperature": 1.0,
            "tool_choice": "auto", "tools": [], "top_p": 1.0, "usage": usage} | more
    responses.Response.model_validate(made)
    return made


def part(text):
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def message(text, **more):
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part(text)]} | more


def begun():
    empty = response("in_progress", [], usage=None)
    kinds = ("response.created", "response.queued", "response.in_progress")
    return [event(kind, response=empty) for kind in kinds]


def of_message(text, index=0):
    at = {"item_id": "msg_1", "output_index": index, "content_index": 0}
    yield event("response.output_item.added", output_index=index, item=message("", content=[], status="in_progress"))
    yield event("response.content_part.added", part=part(""), **at)
    for piece in range(0, len(text), 7):
        yield event("response.output_text.delta", delta=text[piece : piece + 7], logprobs=[], **at)
    yield event("response.output_text.annotation.added", annotation_index=0, annotation=CITATION, **at)
    yield event("response.output_text.done", text=text, logprobs=[], **at)
    yield event("response.content_part.done", part=part(text), **at)
    yield event("response.output_item.done", output_index=index, item=message(text))


def everything():
    """An answer among events of all other types, which belong to items that never become complete."""
    yield from begun()
    last = {"error", "response.completed", "response.failed", "response.incomplete"}
    own = {"response.output_item.added", "response.output_item.done", "response.output_text.delta", "response.output_text.done"}
    parts = {"response.content_part.added", "response.content_part.done"}
    for index, kind in enumerate(sorted(set(EVENTS) - last - own - parts - {"response.created", "response.queued"})):
        place = {"output_index": 100 + index} if "output_index" in EVENTS[kind].model_fields else {}
        if kind != "response.in_progress":
            yield event(kind, **place)
    yield from of_message(ANSWER)
    yield {"type": "response.of_the_future", "sequence_number": 1, "anything": [{}]}
    yield event("response.completed", response=response("completed", [message(ANSWER)]))


def calling():
    """An answer with every kind of item, and a call."""
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "calculator", "arguments": '{"expression": "6*7"}', "status": "completed"}
    others = [item_of(kind) for kind in ITEMS if value_of(kind)["type"] not in ("function_call", "function_call_output", "message")]
    yield from begun()
    output = [*others, FUTURE, call]
    for index, item in enumerate(output):
        added = call | {"arguments": "", "status": "in_progress"} if item is call else item
        yield {"type": "response.output_item.added", "output_index": index, "item": added, "sequence_number": 1}
        if item is call:
            for piece in ('{"expression"', ': "6*7"}'):
                yield event("response.function_call_arguments.delta", item_id="fc_1", output_index=index, delta=piece)
            yield event("response.function_call_arguments.done", item_id="fc_1", output_index=index, name="calculator", arguments=call["arguments"])
        yield {"type": "response.output_item.done", "output_index": index, "item": item, "sequence_number": 1}
    yield {"type": "response.completed", "response": {"status": "completed", "output": output}, "sequence_number": 1}
    # A request for an approval counts as refused and does not come back.
    expected.append([item for item in output if item["type"] != "mcp_approval_request"])


# The output whose items the next request must contain unchanged.
expected = []


def refusing():
    refusal = {"type": "refusal", "refusal": "I cannot help with that."}
    at = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    yield from begun()
    yield event("response.output_item.added", output_index=0, item=message("", content=[]))
    yield event("response.content_part.added", part=refusal | {"refusal": ""}, **at)
    yield event("response.refusal.delta", delta="I cannot ", **at)
    yield event("response.refusal.done", refusal=refusal["refusal"], **at)
    yield event("response.output_item.done", output_index=0, item=message("", content=[refusal]))
    yield event("response.completed", response=response("completed", [message("", content=[refusal])]))


def failing():
    yield from begun()
    yield event("response.failed", response=response("failed", [], error={"code": "server_error", "message": "it broke"}))


def breaking():
    yield from begun()
    yield event("error", code="server_error", message="it broke", param=None)


def stopping():
    yield from begun()
    yield from of_message(ANSWER)
    details = {"reason": "max_output_tokens"}
    yield event("response.incomplete", response=response("incomplete", [message(ANSWER)], incomplete_details=details))


SCRIPTS = {"calculate": calling, "refuse": refusing, "fail": failing, "break": breaking, "stop": stopping}


def check(body):
    """Notes where a request differs from the types of the package."""
    unknown = set(body) - FIELDS
    if unknown:
        problems.append(f"unknown fields: {unknown}")
    known = {**body, "input": [item for item in body["input"] if item["type"] != FUTURE["type"]]}
    read = REQUEST.validate_python(known, strict=False)
    # Lists of typed dictionaries are checked as they are read.
    for field in ("input", "tools"):
        list(read.get(field) or [])
    for tool in body.get("tools", []):
        check_kind(TOOLS, tool)
    for item in body["input"]:
        for content in item["content"] if isinstance(item.get("content"), list) and item.get("role") == "user" else []:
            check_kind(PARTS, content)
    results = [item["call_id"] for item in body["input"] if item["type"] == "function_call_output"]
    calls = [item["call_id"] for item in body["input"] if item["type"] == "function_call"]
    if calls != results:
        problems.append(f"calls {calls} have the results {results}")
    if expected:
        output = expected.pop()
        if not any(body["input"][at : at + len(output)] == output for at in range(len(body["input"]))):
            problems.append("the items of the first answer did not come back as they were")


def check_kind(models, value):
    """Notes where a tool or a part of a message differs from the request type of its kind."""
    model = models[value["type"]]
    unknown = set(value) - set(typing.get_type_hints(model))
    if unknown:
        problems.append(f"unknown fields of {value['type']}: {unknown}")
    pydantic.TypeAdapter(model).validate_python(value, strict=False)
    received.add(value["type"])


def question(body):
    contents = [item["content"] for item in body["input"] if item["type"] == "message" and item["role"] == "user"]
    parts = contents[-1] if isinstance(contents[-1], list) else [{"text": contents[-1]}]
    words = " ".join(part.get("text", "") for part in parts).split()
    return words[-1] if words else ""


class Provider(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        try:
            check(body)
        except Exception as wrong:
            problems.append(f"{type(wrong).__name__}: {wrong}"[:2000])
        results = any(item["type"] == "function_call_output" for item in body["input"])
        script = everything if results else SCRIPTS.get(question(body), everything)
        if not body.get("stream"):
            self.answer(response("completed", [message(ANSWER)]))
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for made in script():
            self.wfile.write(f"event: {made['type']}\ndata: {json.dumps(made)}\n\n".encode())

    def do_GET(self):
        self.answer({"problems": problems, "missing": sorted(set(EVENTS) - sent), "events": len(EVENTS), "items": len(ITEMS),
                     "received": sorted(received)})

    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    print(server.server_address[1], flush=True)
    server.serve_forever()
