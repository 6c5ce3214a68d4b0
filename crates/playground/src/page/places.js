// Places and members, and navigation between them.

import { ask } from "./asking.js";
import { complain, forget, invite } from "./composer.js";
import { drawMessages } from "./list.js";
import { avatar, nameOf } from "./message.js";
import { drawTyping } from "./questions.js";
import { endSearch } from "./search.js";
import { openJoin, openRoles } from "./roles.js";
import { MANAGE_ROLES, at, channelHere, givableRoles, keep, mayManage, news, placeName, placesInOrder, presenceWords, signOf, world } from "./world.js";
import { make } from "/dashboard/dom.js";

export function drawPlace() {
  drawChannels();
  const channel = channelHere();
  const name = channel ? placeName(channel) : "nowhere";
  const parent = world.channels.find((known) => known.id === channel?.parent);
  at("back").hidden = !parent;
  at("back").textContent = parent ? `# ${parent.name} ›` : "";
  at("topic").hidden = Boolean(parent);
  at("channel").replaceChildren(make("span", "hash", signOf(channel)), name);
  document.title = `${channel?.kind === "text" ? "#" : ""}${name} · staffai playground`;
  invite(name, world.members.get(world.me)?.name ?? "no member", world.members.get(world.bot)?.name ?? "staffai", channel?.kind === "direct");
  drawMessages();
  drawTyping();
}

export function drawChannels() {
  at("channels").replaceChildren(...placesInOrder().map((channel) => {
    const fresh = news.get(channel.id);
    const button = make("button", channel.kind === "thread" ? "place thread" : "place", make("span", "hash", signOf(channel)), make("span", "place-name", placeName(channel)));
    button.type = "button";
    if (channel.id === world.here) button.setAttribute("aria-current", "page");
    if (fresh) {
      button.classList.add("fresh");
      const badge = make("span", fresh.forMe ? "badge for-me" : "badge", String(fresh.count));
      badge.setAttribute("aria-label", `${fresh.count} new`);
      button.append(badge);
    }
    button.addEventListener("click", () => go(channel.id));
    return make("li", "", button);
  }));
}

export function go(channel) {
  if (channel === world.here) return;
  world.here = channel;
  keep("channel", channel);
  news.delete(channel);
  endSearch();
  forget();
  drawPlace();
  at("draft").focus({ preventScroll: true });
}

export function drawPeople() {
  const members = [...world.members.values()];
  at("voices").replaceChildren(...members.filter((member) => !member.bot).map((member) => {
    const radio = make("input");
    Object.assign(radio, { type: "radio", name: "voice", value: member.id, checked: member.id === world.me });
    radio.addEventListener("change", () => {
      world.me = member.id;
      keep("member", member.id);
      forget();
      // A direct conversation belongs to one member.
      if (channelHere()?.kind === "direct") go(placesInOrder()[0].id);
      drawPlace();
      drawPeople();
      at("voices").querySelector("input:checked")?.focus();
    });
    const roles = member.roles.map((id) => world.roles.get(id)?.name).filter(Boolean).join(", ");
    const text = make("span", "person", nameOf(member, "", world.roles), make("span", "note", roles || "member"));
    const label = make("label", "voice", radio, avatar(member), text);
    const givable = mayManage(world.me, MANAGE_ROLES) && givableRoles();
    if (!givable?.length) return label;
    const roleButton = make("button", "quiet roles-of", "roles");
    roleButton.type = "button";
    roleButton.setAttribute("aria-label", `Roles of ${member.name}`);
    roleButton.addEventListener("click", () => openRoles(member, givable, (role, held) => ask("POST", "/playground/roles", { member: world.me, user: member.id, role, held })));
    return make("div", "voice-row", label, roleButton);
  }));
  at("bots").replaceChildren(...members.filter((member) => member.bot).map((member) => {
    const [mood, words] = member.id === world.bot ? presenceWords() : ["", "bot"];
    const face = avatar(member);
    if (mood) face.append(make("i", `presence ${mood}`));
    const note = make("span", "note", words);
    note.title = words;
    const row = make("div", "voice bot", face, make("span", "person", nameOf(member, "", world.roles), note));
    if (member.id === world.bot) row.append(directButton(member));
    return row;
  }));
  const mayCall = mayManage(world.me, MANAGE_ROLES);
  at("join").hidden = !mayCall;
  at("join").onclick = () => openJoin(givableRoles(), (name, roles) => ask("POST", "/playground/members", { member: world.me, name, roles }));
}

/** Opens the current member's direct conversation with the bot. */
function directButton(bot) {
  const button = make("button", "quiet direct", "message");
  button.type = "button";
  button.setAttribute("aria-label", `Message ${bot.name} alone`);
  button.addEventListener("click", async () => {
    try {
      const channel = await ask("POST", "/playground/direct", { member: world.me });
      if (!world.channels.some((known) => known.id === channel.id)) world.channels.push(channel);
      go(channel.id);
    } catch (error) {
      complain(error.message);
    }
  });
  return button;
}
