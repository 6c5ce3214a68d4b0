// The socket of speech: events of the conversation, resumed after a lost connection.

/** The first and the longest pause before the page connects again, in milliseconds. */
const RETRY_MS = 500;
const SELDOM_MS = 8000;
/** The interval of signs of life, in milliseconds. */
const ALIVE_MS = 20_000;
/** Maximum bytes of microphone audio that wait in the socket. More is dropped: it would be heard too late. */
const WAITING_MAX = 64 * 1024;

/** Opens the conversation. `hear` receives each event, `connected` true or false. */
export function converse(session, hear, connected) {
  // The last event, and the last sentence of its turn that is complete.
  const position = { after: null, turn: "", sentence: null };
  let socket = null;
  let pause = RETRY_MS;

  const address = () => {
    const address = new URL("/api/v1/voice", location.href);
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    address.searchParams.set("session", session);
    if (position.after !== null) address.searchParams.set("after", position.after);
    if (position.sentence !== null) address.searchParams.set("sentence", position.sentence);
    return address;
  };

  const remember = (event) => {
    if (event.turn && event.turn !== position.turn) Object.assign(position, { turn: event.turn, sentence: null });
    if (event.number !== undefined) position.after = event.number;
    const complete = event.event === "audio" ? event.end : event.event === "sentence" ? !event.speech : event.event === "error";
    if (complete && event.sentence !== undefined) position.sentence = event.sentence;
  };

  const open = () => {
    socket = new WebSocket(address());
    socket.binaryType = "arraybuffer";
    socket.addEventListener("open", () => {
      pause = RETRY_MS;
      connected(true);
    });
    socket.addEventListener("message", (message) => {
      const event = JSON.parse(message.data);
      remember(event);
      hear(event);
    });
    socket.addEventListener("close", () => {
      connected(false);
      setTimeout(open, pause);
      pause = Math.min(SELDOM_MS, pause * 2);
    });
  };
  const isOpen = () => socket?.readyState === WebSocket.OPEN;
  setInterval(() => isOpen() && socket.send(JSON.stringify({ event: "ping" })), ALIVE_MS);
  open();
  return {
    /** Sends a message. Returns false while there is no connection. */
    send(message) {
      if (!isOpen()) return false;
      socket.send(JSON.stringify(message));
      return true;
    },
    /** Sends samples of the microphone. */
    sound(samples) {
      if (isOpen() && socket.bufferedAmount < WAITING_MAX) socket.send(samples);
    },
  };
}
