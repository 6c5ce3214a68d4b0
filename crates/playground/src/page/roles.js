// Dialogs in which a moderator gives and removes roles, and adds members.

import { make } from "/dashboard/dom.js";

const dialog = document.getElementById("roles");

/** Opens the dialog for a member. `roles` can be given; `change(role, held)` requests it and may fail. */
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

/** Opens the dialog for a new member. `roles` can be given; `join(name, roles)` requests it and may fail. */
export function openJoin(roles, join) {
  const problem = make("p", "problem");
  problem.hidden = true;
  const name = make("input", "join-name");
  Object.assign(name, { type: "text", maxLength: 32, required: true, autocomplete: "off" });
  const boxes = roles.map((role) => {
    const box = make("input");
    Object.assign(box, { type: "checkbox", value: role.id });
    return make("label", "role-row", box, make("span", "who", role.name));
  });
  const [cancel, enter] = [make("button", "press", "Cancel"), make("button", "press style-1", "Add")];
  Object.assign(cancel, { type: "button" });
  cancel.addEventListener("click", () => dialog.close());
  const form = make("form", "", make("label", "role-row", make("span", "", "Name"), name), ...boxes, problem, make("p", "ends", cancel, enter));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    enter.disabled = true;
    try {
      await join(name.value, boxes.map((box) => box.firstChild).filter((box) => box.checked).map((box) => box.value));
      dialog.close();
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
    }
    enter.disabled = false;
  });
  dialog.replaceChildren(make("h2", "", "Add a member"), form);
  dialog.showModal();
  name.focus();
}
