"""The official clients of OpenAI and of Ollama, unmodified, against a running bot.

The address and the keys come from the environment. Each step prints one line if it passes; the first failure ends
the program with its traceback.
"""

import json
import os
import sys

import ollama
import openai
from pydantic import BaseModel

BASE = os.environ["STAFFAI_BASE"]
KEY = os.environ["STAFFAI_KEY"]
WORDS = "The tide comes in twice a day."
LOOK = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Looks there.",
        "parameters": {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]},
    },
}


def client(key=KEY):
    return openai.OpenAI(base_url=f"{BASE}/v1", api_key=key, max_retries=0, timeout=30)


def step(held):
    print(held, flush=True)


def openai_chat():
    chat = client().chat.completions
    said = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "My cat is called Tom."},
        {"role": "assistant", "content": "Noted."},
        {"role": "user", "content": "tide?"},
    ]
    answer = chat.create(model="scripted", messages=said, temperature=0.2, max_tokens=50, stop=["END"])
    assert answer.choices[0].message.content == WORDS, answer
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == 15, answer.usage
    assert answer.model == "scripted" and answer.id.startswith("chatcmpl-")
    raw = chat.with_raw_response.create(model="staffai", messages=said, seed=7)
    assert "seed" in raw.headers["warning"], raw.headers
    step("chat")


def openai_stream():
    chunks = list(
        client().chat.completions.create(
            model="scripted",
            messages=[{"role": "user", "content": "stream"}],
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    text = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]
    assert "".join(text) == WORDS, text
    assert len(text) > 2, "it comes as it grows"
    assert chunks[-1].usage.completion_tokens == 5 and chunks[-1].choices == []
    assert chunks[-2].choices[0].finish_reason == "stop"
    step("stream")


def openai_tools():
    chat = client().chat.completions
    said = [{"role": "user", "content": "tools"}]
    for stream in (False, True):
        if stream:
            with chat.stream(model="scripted", messages=said, tools=[LOOK]) as events:
                answer = events.until_done().get_final_completion()
        else:
            answer = chat.create(model="scripted", messages=said, tools=[LOOK], tool_choice="required")
        assert answer.choices[0].finish_reason == "tool_calls"
        call = answer.choices[0].message.tool_calls[0]
        assert (call.id, call.function.name, json.loads(call.function.arguments)) == ("c1", "look", {"at": "sea"})
    made = {"role": "assistant", "content": None, "tool_calls": [call.model_dump()]}
    found = {"role": "tool", "tool_call_id": call.id, "content": "a boat"}
    answer = chat.create(model="scripted", messages=[*said, made, found], tools=[LOOK])
    assert answer.choices[0].message.content == "I see a boat"
    step("tools")


class Tide(BaseModel):
    hours: int


def openai_structured():
    answer = client().chat.completions.parse(
        model="scripted", messages=[{"role": "user", "content": "structured"}], response_format=Tide
    )
    assert answer.choices[0].message.parsed == Tide(hours=12)
    step("structured")


def openai_errors():
    said = [{"role": "user", "content": "tide?"}]

    def fails(kind, code=None, key=KEY, **request):
        try:
            client(key).chat.completions.create(**{"model": "scripted", "messages": said, **request})
        except kind as error:
            assert code is None or error.code == code, error.body
            return error
        raise AssertionError(f"no {kind}")

    fails(openai.AuthenticationError, "invalid_api_key", key="sk-guessed")
    fails(openai.NotFoundError, "model_not_found", model="gpt-99")
    assert fails(openai.BadRequestError, n=2).param == "n"
    fails(openai.BadRequestError, messages=[{"role": "user", "content": [{"type": "input_audio"}]}])
    fails(openai.APIStatusError, messages=[{"role": "user", "content": "break"}])
    broken = client().chat.completions.create(
        model="scripted", messages=[{"role": "user", "content": "cut"}], stream=True
    )
    try:
        seen = "".join(chunk.choices[0].delta.content or "" for chunk in broken)
    except openai.APIError as error:
        assert error.message, error
    else:
        raise AssertionError(f"the stream ended well: {seen}")
    step("errors")


def openai_models():
    models = [model.id for model in client().models.list()]
    assert models == ["staffai", "scripted"], models
    assert client().models.retrieve("scripted").id == "scripted"
    step("models")


def openai_responses():
    responses = client().responses
    first = responses.create(model="scripted", input="My cat is called Tom.", instructions="Be brief.", metadata={"a": "b"})
    assert first.output_text == WORDS and first.status == "completed", first
    assert (first.usage.input_tokens, first.usage.output_tokens) == (10, 5) and first.model == "scripted"
    seen = []
    with responses.stream(model="scripted", input="stream", previous_response_id=first.id) as events:
        for event in events:
            seen.append(event.type)
        second = events.get_final_response()
    assert second.output_text == WORDS and second.previous_response_id == first.id
    assert seen[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ], seen
    assert seen.count("response.output_text.delta") > 2, "it comes as it grows"
    assert seen[-4:] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ], seen
    kept = responses.retrieve(second.id)
    assert kept.output_text == WORDS and responses.retrieve(first.id).metadata == {"a": "b"}
    responses.delete(first.id)
    for gone in (lambda: responses.retrieve(first.id), lambda: responses.delete(first.id)):
        try:
            gone()
        except openai.NotFoundError:
            pass
        else:
            raise AssertionError("it is still there")
    try:
        responses.create(model="scripted", input="tide?", previous_response_id=second.id)
    except openai.BadRequestError as error:
        assert (error.code, error.param) == ("previous_response_not_found", "previous_response_id"), error.body
    else:
        raise AssertionError("a link of the conversation is gone")
    unkept = responses.create(model="scripted", input="tide?", store=False)
    try:
        responses.retrieve(unkept.id)
    except openai.NotFoundError:
        pass
    else:
        raise AssertionError("it was not to be kept")
    step("responses")


def openai_responses_tools():
    responses = client().responses
    look = {"type": "function", "strict": False, **LOOK["function"]}
    first = responses.create(model="scripted", input="tools", tools=[look], tool_choice="required")
    with responses.stream(model="scripted", input="tools", tools=[look]) as events:
        streamed = events.until_done().get_final_response()
    for answer in (first, streamed):
        (call,) = answer.output
        assert (call.type, call.call_id, call.name, json.loads(call.arguments)) == (
            "function_call",
            "c1",
            "look",
            {"at": "sea"},
        ), answer
    found = {"type": "function_call_output", "call_id": "c1", "output": "a boat"}
    answer = responses.create(model="scripted", input=[found], tools=[look], previous_response_id=streamed.id)
    assert answer.output_text == "I see a boat"
    said = [{"role": "user", "content": "tools"}, *first.output, found]
    assert responses.create(model="scripted", input=said, tools=[look]).output_text == "I see a boat"
    named = [{"role": "user", "content": "tools"}, {"type": "item_reference", "id": first.output[0].id}, found]
    assert responses.create(model="scripted", input=named, tools=[look]).output_text == "I see a boat"
    parsed = responses.parse(model="scripted", input="structured", text_format=Tide)
    assert parsed.output_parsed == Tide(hours=12)
    broken = list(responses.create(model="scripted", input="cut", stream=True))
    assert broken[-1].type == "response.failed" and broken[-1].response.error.message, broken[-1]
    step("responses with tools")


def openai_responses_socket():
    look = {"type": "function", "name": "look", "parameters": LOOK["function"]["parameters"]}
    with client().responses.connect() as socket:

        def answer(**request):
            socket.send({"type": "response.create", "model": "scripted", "store": False, **request})
            events = []
            for event in socket:
                events.append(event)
                if event.type in ("response.completed", "response.failed", "error"):
                    return events

        said = [{"role": "user", "content": "stream"}]
        first = answer(input=said)
        assert first[-1].response.output_text == WORDS, first[-1]
        assert [event.type for event in first].count("response.output_text.delta") > 2, "it comes as it grows"
        called = answer(input=[{"role": "user", "content": "tools"}], tools=[look])[-1].response
        call = called.output[-1]
        assert (call.type, call.name) == ("function_call", "look"), call
        found = {"type": "function_call_output", "call_id": call.call_id, "output": "a boat"}
        last = answer(input=[found], tools=[look], previous_response_id=called.id)[-1].response
        assert last.output_text == "I see a boat" and last.previous_response_id == called.id, last
        lost = answer(input="tide?", previous_response_id=first[-1].response.id)[-1]
        assert (lost.type, lost.status, lost.error.code) == ("error", 400, "previous_response_not_found"), lost
    step("responses over a socket")


def openai_embeddings():
    embeddings = client().embeddings
    texts = ["a", "bcd", *["x" * number for number in range(1, 100)]]
    made = embeddings.create(model="embedder", input=texts)
    assert [entry.embedding for entry in made.data] == [[float(len(text)), 0.5] for text in texts], made
    assert made.model == "embedder" and made.usage.prompt_tokens == 3 * len(texts), made.usage
    assert embeddings.create(model="scripted", input="bcd", encoding_format="float").data[0].embedding == [3.0, 0.5]
    for wrong, kind in (({"model": "gpt-99"}, openai.NotFoundError), ({"input": "break"}, openai.BadRequestError)):
        try:
            embeddings.create(**{"model": "embedder", "input": "x", **wrong})
        except kind:
            pass
        else:
            raise AssertionError(f"no {kind}")
    step("embeddings")


def ollama_all():
    asked = ollama.Client(host=BASE, headers={"Authorization": f"Bearer {KEY}"})
    assert [model.model for model in asked.list().models] == ["staffai", "scripted"]
    assert "tools" in asked.show("scripted").capabilities
    assert [model.model for model in asked.ps().models] == ["staffai", "scripted"]
    said = [{"role": "user", "content": "tide?"}]
    answer = asked.chat("scripted", said)
    assert (answer.message.content, answer.done_reason, answer.eval_count) == (WORDS, "stop", 5)
    pieces = list(asked.chat("scripted:latest", [{"role": "user", "content": "stream"}], stream=True))
    assert "".join(piece.message.content for piece in pieces) == WORDS and len(pieces) > 3
    assert pieces[-1].done and not pieces[0].done
    assert asked.generate("scripted", "tide?", system="Be brief.").response == WORDS
    called = asked.chat("scripted", [{"role": "user", "content": "tools"}], tools=[LOOK]).message
    assert called.tool_calls[0].function.arguments == {"at": "sea"}
    found = {"role": "tool", "content": "a boat", "tool_name": "look"}
    seen = asked.chat("scripted", [{"role": "user", "content": "tools"}, called, found], tools=[LOOK])
    assert seen.message.content == "I see a boat"
    try:
        asked.chat("gpt-99", said)
    except ollama.ResponseError as error:
        assert error.status_code == 404 and "gpt-99" in error.error
    else:
        raise AssertionError("no error")
    below = ollama.Client(host=f"{BASE}/v1", headers={"Authorization": f"Bearer {KEY}"})
    assert below.chat("scripted", said).message.content == WORDS
    step("ollama")


STEPS = [
    openai_models,
    openai_chat,
    openai_stream,
    openai_tools,
    openai_structured,
    openai_errors,
    openai_responses,
    openai_responses_tools,
    openai_responses_socket,
    openai_embeddings,
    ollama_all,
]

if __name__ == "__main__":
    for one in STEPS:
        one()
    sys.exit(0)
