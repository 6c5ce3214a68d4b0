// The dashboard as a page of its own.

import { mountBoard } from "./board.js";
import { themeSwitch } from "./theme.js";

const version = document.getElementById("version");

themeSwitch(document.getElementById("theme"));
mountBoard(document.getElementById("board"), {
  told: (readiness) => {
    version.textContent = readiness.version;
    document.title = readiness.status === "ready" ? "staffai" : `${readiness.status} · staffai`;
  },
});
