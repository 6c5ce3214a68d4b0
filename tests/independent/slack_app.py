"""An app of Slack's own library (slack_bolt) in the workspace of the local service: it connects over Socket Mode, answers
a mention, a command, a shortcut with its dialogue, and streams. Prints a line of JSON for each step."""

import json
import os
import sys

from slack_bolt import App
from slack_bolt.adapter.socket_mode import SocketModeHandler
from slack_sdk import WebClient

URL = os.environ["SLACK_API_URL"]


def tell(event, **more):
    print(json.dumps({"event": event, **more}), flush=True)


client = WebClient(token=os.environ["SLACK_BOT_TOKEN"], base_url=f"{URL}/api/")
app = App(client=client, raise_error_for_unhandled_request=False)


@app.event("app_mention")
def mentioned(event, client, say):
    thread = event.get("thread_ts", event["ts"])
    posted = say(text="a first thought", thread_ts=thread, metadata={"event_type": "bolt", "event_payload": {"n": 1}})
    client.chat_update(channel=event["channel"], ts=posted["ts"], text="a better thought")
    history = client.conversations_replies(channel=event["channel"], ts=thread, include_all_metadata=True)
    last = history["messages"][-1]
    tell("mentioned", user=event["user"], history=last["text"], metadata=last["metadata"]["event_payload"])
    stream = client.chat_stream(
        channel=event["channel"], thread_ts=thread, recipient_user_id=event["user"], recipient_team_id="T0WORK", buffer_size=1
    )
    stream.append(markdown_text="one, ")
    stream.append(markdown_text="two, ")
    stream.stop(markdown_text="three")
    tell("streamed")


@app.event("message")
def message(event):
    pass


@app.command("/staffai")
def command(ack, command, respond):
    ack()
    respond(f"ran {command['text']}")
    tell("command", text=command["text"])


@app.shortcut("ask")
def shortcut(ack, shortcut, client):
    ack()
    label = {"type": "plain_text", "text": "Question"}
    element = {"type": "plain_text_input", "action_id": "ask"}
    view = {
        "type": "modal",
        "callback_id": "ask",
        "title": label,
        "submit": label,
        "private_metadata": shortcut["message"]["ts"],
        "blocks": [{"type": "input", "block_id": "ask", "label": label, "element": element}],
    }
    client.views_open(trigger_id=shortcut["trigger_id"], view=view)
    tell("shortcut", text=shortcut["message"]["text"])


@app.view("ask")
def submitted(ack, view):
    question = view["state"]["values"]["ask"]["ask"]["value"]
    ack(response_action="errors", errors={"ask": f"no answer to {question}"})
    tell("submitted", question=question, about=view["private_metadata"])


handler = SocketModeHandler(app, os.environ["SLACK_APP_TOKEN"], ping_interval=2)
handler.connect()
tell("ready", user=client.auth_test()["user_id"])
sys.stdin.read()
handler.close()
