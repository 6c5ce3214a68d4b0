"""A second app in the workspace: slack_bolt over Socket Mode, without code of this repository.

It writes one line of JSON for each event that it receives, and answers mentions of its own bot.
"""

import json
import os
import threading

from slack_bolt import App
from slack_bolt.adapter.socket_mode import SocketModeHandler
from slack_sdk import WebClient


def tell(event, **more):
    print(json.dumps({"event": event, **more}), flush=True)


client = WebClient(token=os.environ["OTHER_BOT_TOKEN"], base_url=os.environ["SLACK_API_URL"] + "/api/")
app = App(client=client)


@app.event("app_mention")
def mentioned(event, say):
    tell("mentioned", text=event["text"], ts=event["ts"])
    # The answer names the other bot, as a bot may that repeats a question.
    say(text="bolt heard: " + event["text"] + " <@UBOT>", thread_ts=event["ts"])


@app.event("message")
def posted(event):
    tell("posted", text=event["text"], user=event.get("user"), bot=event.get("bot_id"))


handler = SocketModeHandler(app, os.environ["OTHER_APP_TOKEN"])
handler.connect()
tell("ready", user=client.auth_test()["user_id"])
threading.Event().wait()
