// A provider from npm that has OpenAI's Responses API, unmodified. The folder of the packages comes from the environment.
// The port is the first line of the output; each request is one further line, as JSON.

const { createRequire } = require("node:module");

const packages = createRequire(`${process.env.STAFFAI_NODE}/package.json`);
const { LLMock } = packages("@copilotkit/aimock");

const answer = (words) => JSON.stringify({ type: "text", response: words, data: "" });

async function main() {
  const mock = new LLMock({ port: 0, host: "127.0.0.1", chunkSize: 7 });
  const call = { name: "calculator", arguments: JSON.stringify({ expression: "6*7" }), id: "call_1" };
  mock.on({ userMessage: "calculate", hasToolResult: false }, { toolCalls: [call] });
  mock.on({ userMessage: "calculate", hasToolResult: true }, { content: answer("It is 42.") });
  mock.on({ userMessage: "think" }, { content: answer("I thought."), reasoning: "Let me think." });
  mock.on({ userMessage: "search" }, { content: answer("I searched."), webSearches: ["tides"] });
  mock.on({ userMessage: "cut" }, { content: answer("Never read to its end, because it is cut off.") }, { truncateAfterChunks: 4 });
  mock.on({ userMessage: "limit" }, { error: { message: "slow down", type: "rate_limit_error" }, status: 429 });
  mock.onMessage("hello", { content: answer("Hi there!") });
  await mock.start();
  console.log(new URL(mock.url).port);
}

main();
