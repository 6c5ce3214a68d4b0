// Slash commands: suggestions, and parsing of the input.

/** The type of an option that is a member. */
const MEMBER = 6;
const KINDS = { 3: "text", 4: "number", 5: "yes or no", 6: "member", 7: "channel", 8: "role", 9: "member or role", 10: "number" };

/**
 * Returns the commands that match the text before the caret, or the options that are not given yet; none for other
 * texts.
 */
export function commandOffers(text, commands) {
  const begun = text.match(/^\/([\w-]*)$/);
  if (begun) {
    const fitting = commands.filter((command) => command.name.startsWith(begun[1].toLowerCase()));
    return fitting.map((command) => ({ name: `/${command.name}`, note: command.description, insert: `/${command.name} `, command }));
  }
  const inside = text.match(/^\/([\w-]+)\s+(?:.*\s)?([\w-]*)$/s);
  const command = inside && commands.find((known) => known.name === inside[1]);
  if (!command) return [];
  const given = parse(text, command)?.options ?? {};
  const open = (command.options ?? []).filter((option) => !(option.name in given) && option.name.startsWith(inside[2]));
  return open.map((option) => ({
    name: `${option.name}:`, note: `${KINDS[option.type] ?? ""}${option.required ? "" : ", optional"} · ${option.description ?? ""}`, insert: `${option.name}:`, option,
  }));
}

/**
 * True if a text is a complete command: its name is complete, no option is incomplete, and no required one is missing.
 */
export function isWhole(text, commands) {
  const match = text.match(/^\/([\w-]+)(?:\s(?:.*\s)?)?$/s);
  const command = match && commands.find((known) => known.name === match[1]);
  if (!command || (text === `/${match[1]}` && commands.some((known) => known !== command && known.name.startsWith(match[1])))) return false;
  const given = parse(text, command).options;
  return (command.options ?? []).every((option) => !option.required || option.name in given);
}

/** Returns the option being typed if the bot provides its choices: `{name, option, typed}`. */
export function beingTyped(before, commands) {
  const inside = before.match(/^\/([\w-]+)\s+(?:.*\s)?([\w-]+):([^:]*)$/s);
  const command = inside && commands.find((known) => known.name === inside[1]);
  const option = (command?.options ?? []).find((known) => known.name === inside[2] && known.autocomplete);
  return option ? { name: command.name, option: option.name, typed: inside[3].trimStart() } : null;
}

/** Returns the text typed so far of a member option, if one is being typed. */
export function memberTyped(before, commands) {
  const inside = before.match(/^\/([\w-]+)\s+(?:.*\s)?([\w-]+):\s*([^:@]*)$/s);
  const command = inside && commands.find((known) => known.name === inside[1]);
  const option = (command?.options ?? []).find((known) => known.name === inside[2] && known.type === MEMBER);
  return option ? inside[3] : null;
}

/** Returns the name of the command that a text is meant to run, known or not. */
export function commandName(text) {
  return text.match(/^\/([\w-]+)(?:\s|$)/)?.[1] ?? null;
}

/** Parses a command: `{name, options}`, or nothing if the text is none. */
export function parseCommand(text, commands) {
  const match = text.match(/^\/([\w-]+)(?:\s|$)/);
  const command = match && commands.find((known) => known.name === match[1]);
  return command ? parse(text, command) : null;
}

/** Parses `name:value` for each option; a value may contain spaces and ends at the next option. */
function parse(text, command) {
  const rest = text.slice(command.name.length + 1).trim();
  const known = (command.options ?? []).map((option) => option.name);
  const options = {};
  if (known.length === 0 || rest === "") return { name: command.name, options };
  const marks = [...rest.matchAll(new RegExp(`(?:^|\\s)(${known.join("|")}):`, "g"))];
  if (marks.length === 0) options[known[0]] = rest;
  marks.forEach((mark, n) => {
    const value = rest.slice(mark.index + mark[0].length, marks[n + 1]?.index).trim();
    if (value !== "") options[mark[1]] = value;
  });
  return { name: command.name, options };
}
