"""The official clients of OpenAI and of Ollama, unmodified, with pictures, vectors and the version after a model's name.

The address and the key come from the environment. Each step prints one line if it passes; the first failure ends the
program with its traceback.
"""

import base64
import os

import ollama
import openai

BASE = os.environ["STAFFAI_BASE"]
KEY = os.environ["STAFFAI_KEY"]
WORDS = "The tide comes in twice a day."
GIF = "R0lGODlhAQABAIAAAP///wAAACwAAAAAAQABAAACAkQBADs="
URL = f"data:image/gif;base64,{GIF}"


def client():
    return openai.OpenAI(base_url=f"{BASE}/v1", api_key=KEY, max_retries=0, timeout=30)


def openai_pictures():
    parts = [{"type": "text", "text": "what?"}, {"type": "image_url", "image_url": {"url": URL, "detail": "low"}}]
    chat = client().chat.completions.with_raw_response.create(model="scripted", messages=[{"role": "user", "content": parts}])
    assert chat.parse().choices[0].message.content == WORDS and "detail" in chat.headers["warning"], chat.headers
    parts = [{"type": "input_text", "text": "what?"}, {"type": "input_image", "image_url": URL, "detail": "auto"}]
    assert client().responses.create(model="scripted", input=[{"role": "user", "content": parts}]).output_text == WORDS
    print("openai pictures", flush=True)


def ollama_pictures():
    asked = ollama.Client(host=BASE, headers={"Authorization": f"Bearer {KEY}"})
    said = {"role": "user", "content": "what?", "images": [base64.b64decode(GIF)]}
    assert asked.chat("scripted", [said]).message.content == WORDS
    assert asked.generate("scripted", "what?", images=[GIF]).response == WORDS
    assert asked.show("scripted").capabilities == ["completion", "tools", "vision", "embedding"]
    print("ollama pictures", flush=True)


def ollama_embed():
    asked = ollama.Client(host=BASE, headers={"Authorization": f"Bearer {KEY}"})
    made = asked.embed("scripted:latest", ["a", "bcd"])
    assert [list(vector) for vector in made.embeddings] == [[1.0, 0.5], [3.0, 0.5]], made
    assert made.model == "embedder" and made.prompt_eval_count == 6, made
    assert list(asked.embed("embedder", "bcd").embeddings[0]) == [3.0, 0.5]
    assert list(asked.embeddings("embedder", "bcd").embedding) == [3.0, 0.5]
    assert asked.embed("embedder", []).embeddings == []
    print("ollama embed", flush=True)


def latest():
    said = [{"role": "user", "content": "tide?"}]
    assert client().chat.completions.create(model="scripted:latest", messages=said).choices[0].message.content == WORDS
    assert client().responses.create(model="staffai:latest", input="tide?").output_text == WORDS
    assert client().models.retrieve("scripted:latest").id == "scripted:latest"
    assert client().embeddings.create(model="embedder:latest", input="bcd", encoding_format="float").data[0].embedding == [3.0, 0.5]
    print("latest", flush=True)


if __name__ == "__main__":
    for step in [openai_pictures, ollama_pictures, ollama_embed, latest]:
        step()
