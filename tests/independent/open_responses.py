"""The cases of the public Open Responses compliance suite that need no WebSocket, against a running bot.

The suite is a Bun program in the repository openresponses/openresponses and in no registry, so its requests are reproduced here. The
schemas are those of the specification, from the package `openresponses-types`: each response, and each event of a stream, must match
its schema. The address and the key come from the environment. Each case prints its id if it passes; the first failure
ends the program with its traceback.
"""

import enum
import json
import os
import typing

import httpx
import openresponses_types.types as schemas

BASE = os.environ["STAFFAI_BASE"]
HEADERS = {"Authorization": f"Bearer {os.environ['STAFFAI_KEY']}"}
MODEL = "scripted"
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather at a place.",
    "parameters": {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]},
}
# A red square of 8 by 8 pixels.
PICTURE = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEUlEQVR42mP4z8CAFTEMLQkAKP8/wc53yE8AAAAASUVORK5CYII="
# The fields that the specification requires of every response, null or not.
REQUIRED = [name for name, field in schemas.ResponseResource.model_fields.items() if field.is_required()]


def event_schemas():
    """Returns the schema of each event, by its field `type`."""
    found = {}
    for name, schema in vars(schemas).items():
        if name.endswith("StreamingEvent"):
            kind = schema.model_fields["type"].annotation
            values = [value.value for value in kind] if isinstance(kind, enum.EnumMeta) else typing.get_args(kind)
            found.update({value: schema for value in values})
    return found


EVENTS = event_schemas()


def fits(response):
    """Returns the response, if it matches its schema and has all fields."""
    missing = [name for name in REQUIRED if name not in response]
    assert not missing, missing
    schemas.ResponseResource.model_validate(response)
    return response


def said(role, content, **more):
    return {"type": "message", "role": role, "content": content, **more}


def post(path, body):
    return httpx.post(f"{BASE}/v1{path}", json=body, headers=HEADERS, timeout=30)


def respond(items, **more):
    answer = post("/responses", {"model": MODEL, "input": items, **more})
    assert answer.status_code == 200, answer.text
    return fits(answer.json())


def stream(items, **more):
    """Returns the events of a stream, each of which matches its schema, and the last response."""
    answer = post("/responses", {"model": MODEL, "input": items, "stream": True, **more})
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/event-stream"), answer.text
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    for event in events:
        EVENTS[event["type"]].model_validate(event)
    assert events[-1]["type"] == "response.completed", events[-1]
    return events, fits(events[-1]["response"])


def completed(response):
    assert response["status"] == "completed" and response["output"], response
    assert response["completed_at"] >= response["created_at"], response


def called(response):
    assert "function_call" in [item["type"] for item in response["output"]], response["output"]


def basic_response():
    completed(respond([said("user", "Say hello.")]))


def streaming_response():
    _, response = stream([said("user", "stream")])
    completed(response)


def system_prompt():
    completed(respond([said("system", "You are a pirate."), said("user", "Say hello.")]))


def tool_calling():
    called(respond([said("user", "weather")], tools=[WEATHER]))


def tool_calling_streaming():
    events, response = stream([said("user", "weather")], tools=[WEATHER])
    called(response)
    of_calls = [event["type"] for event in events if event.get("item", {}).get("type") == "function_call"]
    assert of_calls == ["response.output_item.added", "response.output_item.done"], of_calls
    kinds = [event["type"] for event in events]
    assert {"response.function_call_arguments.delta", "response.function_call_arguments.done"} <= set(kinds), kinds


def image_input():
    picture = {"type": "input_image", "image_url": PICTURE}
    completed(respond([said("user", [{"type": "input_text", "text": "What is this?"}, picture])]))


def multi_turn():
    items = [said("user", "My name is Alice."), said("assistant", "Hello Alice."), said("user", "What is my name?")]
    completed(respond(items))


def assistant_phase():
    items = [
        said("assistant", "I should answer with the saved number.", phase="commentary"),
        said("assistant", "The number is four.", phase="final_answer"),
        said("user", "Repeat only the number."),
    ]
    completed(respond(items))


def response_output_phase_schema():
    """A fixture of the suite: a response with labelled messages matches the schema, and so does one of this program."""
    response = respond([said("user", "Say hello.")])
    for item, phase in zip(response["output"], ["commentary", "final_answer"]):
        item["phase"] = phase
    fits(response)


def compact_response():
    items = [said("user", "We agreed to launch on Tuesday."), said("assistant", "Understood.")]
    answer = post("/responses/compact", {"model": MODEL, "prompt_cache_key": "cache", "input": items})
    assert answer.status_code == 200, answer.text
    compacted = answer.json()
    schemas.CompactResource.model_validate(compacted)
    assert compacted["object"] == "response.compaction", compacted
    assert "compaction" in [item["type"] for item in compacted["output"]], compacted
    completed(respond([*compacted["output"], said("user", "When do we launch?")]))


def compact_missing_model():
    answer = post("/responses/compact", {"input": [said("user", "Compact this conversation.")]})
    assert answer.status_code in (400, 422), answer.text


CASES = [
    basic_response,
    streaming_response,
    system_prompt,
    tool_calling,
    tool_calling_streaming,
    image_input,
    multi_turn,
    assistant_phase,
    response_output_phase_schema,
    compact_response,
    compact_missing_model,
]

if __name__ == "__main__":
    for case in CASES:
        case()
        print(case.__name__.replace("_", "-"), flush=True)
