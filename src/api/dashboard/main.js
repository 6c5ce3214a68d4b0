// The dashboard on a page of its own.

import { mountBoard } from "./board.js";

const version = document.getElementById("version");

mountBoard(document.getElementById("board"), {
  told: (readiness) => {
    version.textContent = readiness.version;
    document.title = readiness.status === "ready" ? "staffai" : `${readiness.status} · staffai`;
  },
});
