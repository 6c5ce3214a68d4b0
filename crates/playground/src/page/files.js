// Files to send: picked, pasted or dropped, shown above the message box, sent in base64.

import { make } from "/dashboard/dom.js";

const MAX_FILES = 4;
const MAX_BYTES = 8 * 1024 * 1024;

const list = document.getElementById("files");
const picker = document.getElementById("picker");
let waiting = [];
let changed = () => {};
let complain = () => {};

/** Starts to accept files. `onChange` is called when their number changes, `onProblem` with the reason of a refusal. */
export function startFiles(onChange, onProblem) {
  changed = onChange;
  complain = onProblem;
  document.getElementById("attach").addEventListener("click", () => picker.click());
  picker.addEventListener("change", () => {
    take(picker.files);
    picker.value = "";
  });
  document.getElementById("draft").addEventListener("paste", (event) => {
    if (event.clipboardData?.files.length) {
      event.preventDefault();
      take(event.clipboardData.files);
    }
  });
  const chat = document.querySelector(".chat");
  chat.addEventListener("dragover", (event) => {
    if (![...event.dataTransfer.types].includes("Files")) return;
    event.preventDefault();
    chat.classList.add("dropping");
  });
  for (const end of ["dragleave", "drop"]) chat.addEventListener(end, () => chat.classList.remove("dropping"));
  chat.addEventListener("drop", (event) => {
    event.preventDefault();
    take(event.dataTransfer.files);
  });
}

/** The number of files to send. */
export function waitingFiles() {
  return waiting.length;
}

/** The files in the format of a request. */
export function encodedFiles() {
  return Promise.all(waiting.map(async (file) => ({ name: file.name || "pasted.png", kind: file.type, data: await base64(file) })));
}

/** Removes all files. */
export function dropFiles() {
  if (waiting.length === 0) return;
  waiting = [];
  draw();
}

/** Formats a size in bytes. */
export function size(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  return bytes < 1024 * 1024 ? `${(bytes / 1024).toFixed(1)} KB` : `${(bytes / 1024 / 1024).toFixed(1)} MB`;
}

function take(files) {
  for (const file of files) {
    const together = waiting.reduce((sum, known) => sum + known.size, file.size);
    if (waiting.length >= MAX_FILES) complain(`A message has at most ${MAX_FILES} files.`);
    else if (together > MAX_BYTES) complain(`${file.name} is too large: the files of a message have at most 8 MB together.`);
    else waiting.push(file);
  }
  draw();
}

function draw() {
  list.hidden = waiting.length === 0;
  list.replaceChildren(...waiting.map((file) => {
    const remove = make("button", "quiet", "✕");
    remove.type = "button";
    remove.setAttribute("aria-label", `Remove ${file.name}`);
    remove.addEventListener("click", () => {
      waiting = waiting.filter((known) => known !== file);
      draw();
    });
    return make("li", "file", make("span", "file-name", file.name), make("span", "file-size", size(file.size)), remove);
  }));
  changed();
}

async function base64(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let at = 0; at < bytes.length; at += 32_768) text += String.fromCharCode(...bytes.subarray(at, at + 32_768));
  return btoa(text);
}
