// The state: the server as received, the current member, and the current place.

const MANAGE_MESSAGES = 1n << 13n;
export const MANAGE_ROLES = 1n << 28n;

export const at = (id) => document.getElementById(id);

export const world = {
  guild: null, bot: "", examples: { chips: [], tour: [] }, roles: new Map(), members: new Map(), channels: [], messages: new Map(), typing: new Map(), presence: null, commands: [],
  /** The current place and member. */
  here: recall("channel"), me: recall("member"),
};
/** The unread messages of other places. */
export const news = new Map();
/** Open questions of the members here: member and place. */
export const open = new Map();

export function recall(what) {
  try {
    return sessionStorage.getItem(`playground.${what}`) ?? "";
  } catch {
    return "";
  }
}

export function keep(what, value) {
  try {
    sessionStorage.setItem(`playground.${what}`, value);
  } catch {
    // Without browser storage the page starts with the first channel.
  }
}

export function channelHere() {
  return world.channels.find((channel) => channel.id === world.here);
}

/** The messages shown here; a thread starts with the message that it was opened from. */
export function messagesHere() {
  const all = world.messages.get(world.here) ?? [];
  const parent = channelHere()?.parent;
  const first = parent && world.messages.get(parent)?.find((message) => message.id === world.here);
  const seen = (message) => !message.only_for || message.only_for === world.me;
  return (first ? [first, ...all] : all).filter(seen);
}

/** Returns a message of the current place. */
export function find(id) {
  return messagesHere().find((message) => message.id === id);
}

export function mayManage(member, right = MANAGE_MESSAGES) {
  const held = world.members.get(member)?.roles ?? [];
  const bits = held.reduce((sum, id) => sum | BigInt(world.roles.get(id)?.permissions ?? 0), 0n);
  return world.guild?.owner === member || (bits & right) !== 0n;
}

/** Direct conversations have a name of their own. */
export function placeName(channel) {
  return channel.kind === "direct" ? world.members.get(world.bot)?.name ?? "staffai" : channel.name;
}

export function signOf(channel) {
  return { direct: "@", thread: "↳" }[channel?.kind] ?? "#";
}

/** Channels in order, each followed by its threads. */
export function placesInOrder() {
  const threads = (channel) => world.channels.filter((thread) => thread.parent === channel.id);
  const seen = (channel) => channel.kind !== "thread" && (channel.kind !== "direct" || channel.recipient === world.me);
  return world.channels.filter(seen).flatMap((channel) => [channel, ...threads(channel)]);
}

/** Roles that the current member may give: those below their own, none of a bot. */
export function givableRoles() {
  const mine = world.members.get(world.me)?.roles ?? [];
  const rank = world.guild?.owner === world.me ? Infinity : Math.max(0, ...mine.map((id) => world.roles.get(id)?.position ?? 0));
  return [...world.roles.values()].filter((role) => !role.managed && role.id !== world.guild?.id && role.position < rank);
}

export function presenceWords() {
  const status = world.presence?.status ?? (world.presence ? "online" : "");
  const activity = world.presence?.activities?.[0];
  if (!activity) return [status, status || "bot"];
  const verbs = { 0: "Playing", 1: "Streaming", 2: "Listening to", 3: "Watching", 5: "Competing in" };
  const words = activity.type === 4 ? activity.state ?? activity.name : `${verbs[activity.type] ?? ""} ${activity.name}`;
  return [status, String(words ?? "").trim() || status];
}

export function people() {
  const entries = [...world.members.values()].map((member) => ({
    name: member.name, token: `<@${member.id}>`, member, note: member.bot ? "bot" : "", first: member.id === world.bot,
  }));
  const roles = [...world.roles.values()].filter((role) => !role.managed && !role.name.startsWith("@"));
  entries.push(...roles.map((role) => ({ name: role.name, token: `<@&${role.id}>`, note: "role" })));
  return entries.sort((a, b) => Number(Boolean(b.first)) - Number(Boolean(a.first)));
}
