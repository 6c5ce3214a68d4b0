"""Programs on the official client of OpenAI, unmodified, against a running bot: LangChain and the command `llm`.

The address and the key come from the environment. Each step prints one line if it passes.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

from langchain_openai import ChatOpenAI, OpenAIEmbeddings

BASE = os.environ["STAFFAI_BASE"]
KEY = os.environ["STAFFAI_KEY"]
WORDS = "The tide comes in twice a day."
MODELS = f"""
- model_id: tide
  model_name: scripted
  api_base: {BASE}/v1
  api_key_name: staffai
"""


def langchain():
    asked = {"base_url": f"{BASE}/v1", "api_key": KEY, "max_retries": 0}
    chat = ChatOpenAI(model="scripted", **asked)
    answer = chat.invoke("tide?")
    assert answer.content == WORDS and answer.usage_metadata["output_tokens"] == 5, answer
    pieces = [piece.content for piece in chat.stream("stream") if piece.content]
    assert "".join(pieces) == WORDS and len(pieces) > 2, pieces
    called = chat.bind_tools([look]).invoke("tools")
    assert called.tool_calls[0]["args"] == {"at": "sea"}, called
    responses = ChatOpenAI(model="scripted", use_responses_api=True, **asked)
    assert responses.invoke("tide?").text == WORDS
    # Texts are sent as strings, not as tokens of a model that this client knows.
    embeddings = OpenAIEmbeddings(model="embedder", check_embedding_ctx_length=False, **asked)
    assert embeddings.embed_documents(["a", "bcd"]) == [[1.0, 0.5], [3.0, 0.5]]
    print("langchain", flush=True)


def look(at: str) -> str:
    """Looks there."""
    return at


def llm():
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "extra-openai-models.yaml").write_text(MODELS)
        pathlib.Path(folder, "keys.json").write_text(json.dumps({"staffai": KEY}))
        for arguments in (["tide?", "--no-stream"], ["stream"]):
            command = [sys.executable, "-m", "llm", "-m", "tide", "--no-log", *arguments]
            environment = {**os.environ, "LLM_USER_PATH": folder}
            done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, stdin=subprocess.DEVNULL)
            assert (done.returncode, done.stdout.strip()) == (0, WORDS), done
    print("llm", flush=True)


if __name__ == "__main__":
    langchain()
    llm()
