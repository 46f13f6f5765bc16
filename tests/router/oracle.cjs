// Reads one line per connection, its kind and its bytes in base64; says which messages Node's llhttp found in it.
const readline = require("node:readline");
process.removeAllListeners("warning");
process.noDeprecation = true;
const { HTTPParser, allMethods, methods } = process.binding("http_parser");
const names = allMethods ?? methods;

function framed(kind, data) {
  const found = { messages: [], wrong: false, last: false };
  const parser = new HTTPParser();
  parser.initialize(kind === "request" ? HTTPParser.REQUEST : HTTPParser.RESPONSE, {}, 1 << 24);
  let start = "", body = [], interim = false;
  parser[HTTPParser.kOnHeadersComplete | 0] = (major, minor, headers, method, url, status, text, upgrade, keep) => {
    start = kind === "request" ? `${names[method]} ${url}` : `${status}`;
    interim = kind !== "request" && status < 200;
    body = [];
    found.last = !interim && !keep;
    return 0;
  };
  parser[HTTPParser.kOnBody | 0] = (piece) => { body.push(Buffer.from(piece)); };
  parser[HTTPParser.kOnMessageComplete | 0] = () => {
    if (!interim) found.messages.push([start, Buffer.concat(body).toString("base64")]);
  };
  found.wrong = parser.execute(data) instanceof Error;
  return found;
}

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [kind, data] = line.split(" ");
    process.stdout.write(JSON.stringify(framed(kind, Buffer.from(data, "base64"))) + "\n");
  }
})();
