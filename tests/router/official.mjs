// What the official client for JavaScript gets from a router: its base URL and a key are the arguments.
import OpenAI from "openai";

const [baseURL, apiKey] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const asked = { model: "alias", messages: [{ role: "user", content: "the model" }], temperature: 0, max_tokens: 8 };
const found = {};

const whole = await client.chat.completions.create(asked);
found.text = whole.choices[0].message.content;
found.usage = whole.usage.completion_tokens;

found.streamed = "";
for await (const event of await client.chat.completions.create({ ...asked, stream: true })) {
  found.streamed += event.choices[0]?.delta?.content ?? "";
}

const endless = { ...asked, max_tokens: 60000, ignore_eos: true, stream: true };
for await (const _ of await client.chat.completions.create(endless)) {
  break; // which cancels it
}

found.models = (await client.models.list()).data.map((model) => model.id);
try {
  await client.chat.completions.create({ ...asked, model: "other" });
} catch (error) {
  found.unknown = [error.status, error.code];
}
try {
  await new OpenAI({ baseURL, apiKey: "wrong", maxRetries: 0 }).models.list();
} catch (error) {
  found.stranger = error.status;
}
console.log(JSON.stringify(found));
