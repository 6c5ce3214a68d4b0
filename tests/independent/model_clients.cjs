// Clients of OpenAI from npm, unmodified, against a running bot. The address, the key and the folder of the packages come from the environment.
// Each step prints one line if it passes; the first failure ends the program with its error.

const assert = require("node:assert/strict");
const { createRequire } = require("node:module");

const packages = createRequire(`${process.env.STAFFAI_NODE}/package.json`);
const { OpenAI } = packages("openai");
const { generateText, streamText, jsonSchema, tool } = packages("ai");
const { createOpenAICompatible } = packages("@ai-sdk/openai-compatible");

const baseURL = `${process.env.STAFFAI_BASE}/v1`;
const apiKey = process.env.STAFFAI_KEY;
const WORDS = "The tide comes in twice a day.";

async function npmOpenai() {
  const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
  const messages = [{ role: "user", content: "tide?" }];
  const answer = await client.chat.completions.create({ model: "scripted", messages });
  assert.equal(answer.choices[0].message.content, WORDS);
  const pieces = [];
  const said = [{ role: "user", content: "stream" }];
  for await (const chunk of await client.chat.completions.create({ model: "scripted", messages: said, stream: true })) {
    pieces.push(chunk.choices[0]?.delta?.content ?? "");
  }
  assert.equal(pieces.join(""), WORDS);
  const response = await client.responses.create({ model: "scripted", input: "tide?" });
  assert.equal(response.output_text, WORDS);
  const streamed = client.responses.stream({ model: "scripted", input: "stream", previous_response_id: response.id });
  assert.equal((await streamed.finalResponse()).output_text, WORDS);
  console.log("npm openai");
}

async function aiSdk() {
  const provider = createOpenAICompatible({ name: "staffai", baseURL, apiKey, includeUsage: true });
  const model = provider("scripted");
  const { text, usage } = await generateText({ model, prompt: "tide?", maxRetries: 0 });
  assert.equal(text, WORDS);
  assert.equal(usage.outputTokens, 5);
  const streamed = streamText({ model, prompt: "stream", maxRetries: 0 });
  const pieces = [];
  for await (const piece of streamed.textStream) pieces.push(piece);
  assert.equal(pieces.join(""), WORDS);
  assert.ok(pieces.length > 2, "it comes as it grows");
  const inputSchema = jsonSchema({ type: "object", properties: { at: { type: "string" } } });
  const look = tool({ description: "Looks there.", inputSchema });
  const called = await generateText({ model, prompt: "tools", tools: { look }, maxRetries: 0 });
  assert.deepEqual(called.toolCalls[0].input, { at: "sea" });
  console.log("ai sdk");
}

(async () => {
  await npmOpenai();
  await aiSdk();
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
