// Sends every answer to Python as (name of the question, key, value), and shows what Python says of refused answers.

function answerOf(element) {
  if (element.dataset.many !== undefined) {
    const alike = document.querySelectorAll(`[data-send="${element.dataset.send}"][data-many]`);
    const group = [...alike].filter((each) => each.dataset.key === element.dataset.key);
    return element.type === "checkbox"
      ? group.filter((each) => each.checked).map((each) => each.value)
      : group.map((each) => each.value);
  }
  if (element.type === "checkbox") return element.checked;
  if (element.type === "range") return valueOf(element);
  return element.value;
}

function valueOf(slider) {
  return slider.dataset.values.split(" ")[Number(slider.value)];
}

function send(element, value) {
  element.dataset.sent = element.value;
  Shiny.setInputValue(element.dataset.send, { key: element.dataset.key, value: value }, { priority: "event" });
}

document.addEventListener("change", (event) => {
  const element = event.target.closest("[data-send]");
  if (!element || element.type === "range") return;
  send(element, answerOf(element));
});

document.addEventListener("input", (event) => {
  if (event.target.type === "range" && event.target.dataset.send) {
    const value = valueOf(event.target);
    event.target.setAttribute("aria-valuetext", value);
    const shown = document.getElementById(event.target.dataset.shows);
    shown.value = shown.dataset.sent = value;
    send(event.target, answerOf(event.target));
  }
  if (event.target.id === "filter") {
    const wanted = event.target.value.toLowerCase();
    for (const row of document.querySelectorAll("[data-column]"))
      row.hidden = !row.dataset.column.toLowerCase().includes(wanted);
  }
});

document.addEventListener("click", (event) => {
  const step = event.target.closest("[data-step]");
  if (step) show(step.dataset.step);
  const button = event.target.closest("button[data-send]");
  if (button) send(button, null);
});

function show(step) {
  for (const panel of document.querySelectorAll("section[id^=step-]")) panel.hidden = panel.id !== `step-${step}`;
  for (const each of document.querySelectorAll("nav [data-step]"))
    if (each.dataset.step === step) each.setAttribute("aria-current", "step");
    else each.removeAttribute("aria-current");
  window.scrollTo(0, 0);
  document.querySelector(`#step-${step} h2`).focus({ preventScroll: true });
  if (window.Shiny && Shiny.setInputValue) Shiny.setInputValue("step", step);
}

$(document).on("shiny:connected", () => {
  Shiny.setInputValue("language", document.documentElement.lang);
  Shiny.setInputValue("step", document.body.querySelector("nav [aria-current]").dataset.step);
  Shiny.addCustomMessageHandler("faults", (faults) => {
    for (const place of document.querySelectorAll("[id^=fault-]")) {
      const text = faults[place.id.slice("fault-".length)] || "";
      if (place.textContent !== text) place.textContent = text;
      const input = document.getElementById(place.id.slice("fault-".length));
      if (input) input.setAttribute("aria-invalid", text !== "");
    }
  });
});

$(document).on("shiny:disconnected", () => { document.getElementById("gone").hidden = false; });

// a part of the page that is drawn anew leaves the keyboard where it was, and text that was not sent yet
let focused = null, written = null;
$(document).on("shiny:value", () => {
  const element = document.activeElement;
  if (!element || !element.id) return;
  focused = element.id;
  const unsent = "defaultValue" in element && ![element.defaultValue, element.dataset.sent].includes(element.value);
  written = unsent ? element.value : null;
});
$(document).on("shiny:bound", () => {
  if (!focused || document.activeElement !== document.body) return;
  const element = document.getElementById(focused);
  if (!element) return;
  element.focus();
  if (written !== null && ["text", "textarea"].includes(element.type)) element.value = written;
  focused = written = null;
});
for (const kind of ["pointerdown", "keydown"])
  document.addEventListener(kind, () => { focused = written = null; }, true);
