"""An independent client of the local Discord service, on discord.py.

Logs in, answers a mention, edits the answer, reads the history, loses its socket,
resumes, and answers a second mention that was sent meanwhile. Prints one JSON object per line;
exits with 0 if all of that happened and with 1 otherwise.

DISCORD_API_URL and DISCORD_TOKEN are the address and the credentials.
"""

import asyncio
import json
import os
import sys

# The service compresses with zlib; if one of these can be imported, the library asks for zstd.
sys.modules["zstandard"] = None
sys.modules["compression.zstd"] = None

import discord
import discord.gateway
import yarl

DEADLINE = 60.0

discord.http.Route.BASE = os.environ["DISCORD_API_URL"] + "/api/v10"
# The library's default gateway must never be used: no connection may leave this machine.
discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL("ws://127.0.0.1:9")


def say(event, **fields):
    print(json.dumps({"event": event, **fields}), flush=True)


class Client(discord.AutoShardedClient):  # the one that asks /gateway/bot
    done = False

    async def on_ready(self):
        guild = self.guilds[0]
        say(
            "ready",
            user=self.user.name,
            guild=guild.name,
            members=sorted(member.name for member in guild.members),
            roles=[role.name for role in guild.roles],
            channels=[channel.name for channel in guild.text_channels],
            owner=guild.owner.name,
            application=str(self.application_id),
        )

    async def on_resumed(self):
        say("resumed")

    async def on_message(self, message):
        if self.user not in message.mentions:
            return
        say(
            "mentioned",
            author=message.author.display_name,
            content=message.content,
            roles=[role.name for role in message.author.roles],
            reply_to=message.reference and str(message.reference.message_id),
        )
        if "again" in message.content:
            answer = await message.reply("here again", mention_author=False)
            say("answered_again", id=str(answer.id))
            self.done = True
            await self.close()
            return
        async with message.channel.typing():
            answer = await message.reply("a first thought")
        answer = await answer.edit(content="a better thought")
        history = [entry async for entry in message.channel.history(limit=10)]
        fetched = await message.channel.fetch_message(answer.id)
        member = await message.guild.fetch_member(message.author.id)
        say(
            "answered",
            id=str(answer.id),
            content=fetched.content,
            edited=fetched.edited_at is not None,
            reply_to=str(fetched.reference.message_id),
            pinged=[user.name for user in fetched.mentions],
            history=[entry.content for entry in history],
            member=member.display_name,
        )

    async def on_error(self, name, *args):
        say("error", where=name, what=repr(sys.exc_info()[1]))
        await self.close()


async def main():
    intents = discord.Intents.default()
    intents.message_content = True
    intents.members = True
    client = Client(intents=intents)
    try:
        await asyncio.wait_for(client.start(os.environ["DISCORD_TOKEN"]), DEADLINE)
    except Exception as error:
        say("failed", what=repr(error))
    return 0 if client.done else 1


sys.exit(asyncio.run(main()))
