// A small window in which a moderator gives and takes roles.

import { make } from "/dashboard/dom.js";

const dialog = document.getElementById("roles");

/** Opens the window for a member. `roles` can be given; `change(role, held)` asks for it and may fail. */
export function openRoles(member, roles, change) {
  const problem = make("p", "problem");
  problem.hidden = true;
  const boxes = roles.map((role) => {
    const box = make("input");
    Object.assign(box, { type: "checkbox", checked: member.roles.includes(role.id) });
    box.addEventListener("change", async () => {
      box.disabled = true;
      try {
        await change(role.id, box.checked);
        problem.hidden = true;
      } catch (error) {
        box.checked = !box.checked;
        problem.textContent = error.message;
        problem.hidden = false;
      }
      box.disabled = false;
    });
    const name = make("span", "who", role.name);
    if (role.color) name.style.setProperty("--role", `#${role.color.toString(16).padStart(6, "0")}`);
    return make("label", "role-row", box, name);
  });
  const close = make("button", "press style-1", "Done");
  close.type = "button";
  close.addEventListener("click", () => dialog.close());
  dialog.replaceChildren(make("h2", "", `Roles of ${member.name}`), ...boxes, problem, make("p", "ends", close));
  dialog.showModal();
}
