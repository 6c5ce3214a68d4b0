"""A common kind of bot: discord.py, an HTTP client for the model, the last messages of each channel in memory.

It only answers mentions: no limits, journal, order or retries of its own.

Arguments: the address of the request API and the model, and that of the gateway.
"""

import collections
import sys

# The rig compresses with zlib; if one of these can be imported, the library asks for zstd.
sys.modules["zstandard"] = None
sys.modules["compression.zstd"] = None

import aiohttp
import discord
import discord.gateway
import yarl

API, GATEWAY = sys.argv[1], sys.argv[2]
HISTORY = 20

discord.http.Route.BASE = f"http://{API}/api/v10"
discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(f"ws://{GATEWAY}")


class Peer(discord.Client):
    async def setup_hook(self):
        self.model = aiohttp.ClientSession()
        self.said = collections.defaultdict(lambda: collections.deque(maxlen=HISTORY))

    async def on_message(self, message):
        if self.user not in message.mentions:
            return
        said = self.said[message.channel.id, message.author.id]
        said.append({"role": "user", "content": message.content})
        system = {"role": "system", "content": "You are a helpful member of this community. " * 20}
        asked = {"model": "rig", "messages": [system, *said]}
        async with self.model.post(f"http://{API}/chat/completions", json=asked) as answer:
            told = await answer.json()
        text = told["choices"][0]["message"]["content"]
        said.append({"role": "assistant", "content": text})
        await message.reply(text, mention_author=False)


intents = discord.Intents.none()
intents.guilds = intents.guild_messages = intents.message_content = True
Peer(intents=intents, max_messages=None).run("peer", log_handler=None)
