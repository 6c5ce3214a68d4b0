// The light or dark theme: the system's until the reader chooses.

const KEY = "staffai.theme";
const NEXT = { "": "dark", dark: "light", light: "" };
const WORDS = { "": "Colours: as the system", dark: "Colours: dark", light: "Colours: light" };
const SIGNS = { "": "◐", dark: "☾", light: "☀" };

/** Turns a button into the switch. */
export function themeSwitch(button) {
  const show = (theme) => {
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
    button.textContent = SIGNS[theme];
    button.title = WORDS[theme];
    button.setAttribute("aria-label", WORDS[theme]);
    return theme;
  };
  let theme = show(recalled());
  button.addEventListener("click", () => {
    theme = show(NEXT[theme]);
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      // Without browser storage the system's preference applies again next time.
    }
  });
}

function recalled() {
  try {
    const theme = localStorage.getItem(KEY) ?? "";
    return theme in NEXT ? theme : "";
  } catch {
    return "";
  }
}
