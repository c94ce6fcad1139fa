"use strict";
// The page asks the service for every number, or the model that is in it: what it shows is what Python predicts.
const element = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 640, HEIGHT = 250, LEFT = 12, RIGHT = 12, TOP = 26, BOTTOM = 44;
const EXPLAIN_AFTER = 250, ANNOUNCE_AFTER = 700;
const state = { model: "", row: {}, coverage: 0.9, above: null };
let card = null, domain = null, running = false, again = false, explainTimer = 0, announceTimer = 0;

const own = element("data") ? usnrtEvaluator.create(JSON.parse(element("data").textContent)) : null;

async function ask(path, body) {
  if (own) {
    await new Promise((resolve) => setTimeout(resolve));  // so that sliders move while answers are computed
    return own.ask(path, body);
  }
  const headers = { "content-type": "application/json" };
  const token = sessionStorage.getItem("usnrt-token");
  if (token) headers.authorization = `Bearer ${token}`;
  const answer = await fetch(path, body ? { method: "POST", headers, body: JSON.stringify(body) } : { headers });
  if (answer.status === 401) element("token-form").hidden = false;
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error ? found.error.message : `the service answered ${answer.status}`);
  return found;
}

function say(text) {
  element("message").hidden = !text;
  element("message").textContent = text;
}

// ---- numbers in text ----

function decimalsFor(unit) {
  return unit > 0 && isFinite(unit) ? Math.min(Math.max(1 - Math.floor(Math.log10(unit)), 0), 12) : 2;
}

function text(value, decimals) {
  if (value === null) return "∞";
  const digits = { minimumFractionDigits: decimals, maximumFractionDigits: decimals, signDisplay: "negative" };
  return value.toLocaleString("en", digits).replace("-", "−");
}

function percent(probability) {
  const share = 100 * probability;
  if (probability > 0 && share < 0.1) return "below 0.1 %";
  if (probability < 1 && share > 99.9) return "above 99.9 %";
  return `${share.toLocaleString("en", { maximumFractionDigits: 1 })} %`;
}

function niceStep(range, count) {
  const rough = range / count, power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].find((factor) => factor * power >= rough) * power;
}

// ---- state and address ----

function stateInAddress() {
  const short = { m: state.model, r: state.row, c: state.coverage, a: state.above };
  return `#${encodeURIComponent(JSON.stringify(short))}`;
}

function fromAddress() {
  try {
    const given = JSON.parse(decodeURIComponent(location.hash.slice(1)));
    return given && typeof given === "object" ? given : {};
  } catch {
    return {};
  }
}

function keepState() {
  history.replaceState(null, "", stateInAddress());
}

// ---- inputs ----

function make(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

function changed(name, value) {
  state.row[name] = value;
  update();
}

function missingBox(column, inputs) {
  const box = make("input", { type: "checkbox" });
  box.checked = state.row[column.name] === null;
  const apply = () => inputs.forEach((input) => { input.disabled = box.checked; });
  apply();
  box.addEventListener("change", () => {
    apply();
    changed(column.name, box.checked ? null : Number(inputs[0].value));
  });
  const words = column.missing_in_training ? "missing" : "missing (never in training)";
  return make("label", { class: "missing" }, box, words);
}

function numberInput(column, id) {
  const value = state.row[column.name] ?? card.example[column.name] ?? 0;
  const number = make("input", { id, type: "number", step: "any", class: "value" });
  number.value = value;
  const inputs = [number];
  const line = [make("label", { for: id }, column.name), number];
  if (column.range) {
    const [low, high] = column.range, step = niceStep(high - low || 1, 200);
    const first = Math.ceil(low / step) * step;
    const slider = make("input", { type: "range", min: first, max: high, step, "aria-label": column.name });
    slider.value = value;
    slider.addEventListener("input", () => {
      const chosen = Number(Number(slider.value).toPrecision(10));
      number.value = chosen;
      changed(column.name, chosen);
    });
    number.addEventListener("input", () => { slider.value = number.value; });
    inputs.push(slider);
    line.push(slider);
  }
  number.addEventListener("input", () => {
    if (number.value !== "" && isFinite(number.valueAsNumber)) changed(column.name, number.valueAsNumber);
  });
  return [...line, missingBox(column, inputs)];
}

function listInput(column, id, choices) {
  const list = make("select", { id });
  choices.forEach(([label, value], i) => list.append(make("option", { value: i }, label)));
  const place = choices.findIndex(([, value]) => value === state.row[column.name]);
  if (place < 0) {  // a category of a link that training did not have
    choices.push([`${state.row[column.name]} (not in training)`, state.row[column.name]]);
    list.append(make("option", { value: choices.length - 1 }, choices.at(-1)[0]));
  }
  list.value = place < 0 ? choices.length - 1 : place;
  list.addEventListener("change", () => changed(column.name, choices[Number(list.value)][1]));
  return [make("label", { for: id }, column.name), list];
}

function otherInput(column, id, type) {
  const input = make("input", { id, type });
  input.value = state.row[column.name] === null ? "" : String(state.row[column.name]).slice(0, type === "date" ? 10 : undefined);
  input.addEventListener("change", () => changed(column.name, input.value === "" ? null : input.value));
  return [make("label", { for: id }, column.name), input];
}

function inputOf(column, position) {
  const id = `column-${position}`, missing = ["missing", null];
  if (column.type === "boolean") return listInput(column, id, [["yes", true], ["no", false], missing]);
  if (column.categories) return listInput(column, id, [...column.categories.map((c) => [String(c), c]), missing]);
  if (column.type === "number") return numberInput(column, id);
  return otherInput(column, id, column.type === "date" ? "date" : "text");
}

function drawInputs() {
  const shown = card.columns.filter((column) => column.type !== "ignored");
  element("columns").replaceChildren(
    ...shown.map((column, i) => {
      const line = make("div", { class: "input" }, ...inputOf(column, i));
      line.dataset.name = column.name.toLowerCase();
      return line;
    }),
  );
  element("filter-line").hidden = shown.length <= 12;
  element("coverage").value = Math.round(100 * state.coverage);
  element("above").value = state.above ?? "";
}

// ---- the picture ----

function node(tag, attributes, content) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (content !== undefined) made.textContent = content;
  return made;
}

function chooseDomain(edges) {
  const low = edges[0], high = edges.at(-1), width = high - low;
  if (!domain || low < domain[0] || high > domain[1] || width < 0.3 * (domain[1] - domain[0])) {
    domain = [low - 0.15 * width, high + 0.15 * width];  // room to move before the axis changes
  }
}

function heights(curve) {
  const { edges, probability } = curve, last = probability.length - 1;
  const density = probability.map((p, i) => p / (edges[i + 1] - edges[i]));
  // the outer cells hold all that is beyond them: nothing to draw, unless it is a point mass
  for (const i of [0, last]) if (probability[i] < 0.01) density[i] = 0;
  const smooth = density.filter((_, i) => probability[i] < 0.15);
  const top = Math.max(...(smooth.length ? smooth : density), 1e-300);
  return density.map((d) => Math.min(d / top, 1.08));
}

function outline(edges, height, x, y, from, to) {
  let path = "", open = false;
  height.forEach((h, i) => {
    const a = Math.max(edges[i], from), b = Math.min(edges[i + 1], to);
    if (a >= b) return;
    path += `${open ? "L" : `M${x(a)},${y(0)}L`}${x(a)},${y(h)}L${x(b)},${y(h)}`;
    open = b;
  });
  return open === false ? "" : `${path}L${x(open)},${y(0)}Z`;
}

function draw(row, asked) {
  const { edges } = row.curve, height = heights(row.curve);
  chooseDomain(edges);
  const x = (value) => LEFT + ((value - domain[0]) / (domain[1] - domain[0])) * (WIDTH - LEFT - RIGHT);
  const y = (h) => HEIGHT - BOTTOM - (h / 1.08) * (HEIGHT - TOP - BOTTOM);
  const low = row.lower ?? -Infinity, high = row.upper ?? Infinity;
  const parts = [
    node("path", { class: "tail", d: outline(edges, height, x, y, -Infinity, Infinity) }),
    node("path", { class: "band", d: outline(edges, height, x, y, low, high) }),
  ];
  if (asked.above !== null) parts.push(node("path", { class: "above", d: outline(edges, height, x, y, asked.above, Infinity) }));
  parts.push(node("path", { class: "outline", d: outline(edges, height, x, y, -Infinity, Infinity) }));
  const base = HEIGHT - BOTTOM, clamp = (v) => Math.min(Math.max(x(v), LEFT), WIDTH - RIGHT);
  parts.push(node("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: base, y2: base }));
  parts.push(node("line", { class: "bracket", x1: clamp(low), x2: clamp(high), y1: base + 5, y2: base + 5 }));
  parts.push(node("line", { class: "mean-line", x1: clamp(row.mean), x2: clamp(row.mean), y1: TOP, y2: base }));
  const narrow = matchMedia("(max-width: 60rem)").matches;
  const step = niceStep(domain[1] - domain[0], narrow ? 3 : 6), decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  for (let tick = Math.ceil(domain[0] / step) * step; tick <= domain[1]; tick += step) {
    if (x(tick) < LEFT + 14 || x(tick) > WIDTH - RIGHT - 14) continue;
    parts.push(node("line", { class: "axis", x1: x(tick), x2: x(tick), y1: base, y2: base + 5 }));
    parts.push(node("text", { x: x(tick), y: base + 27, "text-anchor": "middle" }, text(tick || 0, decimals)));
  }
  if (asked.above !== null && asked.above >= domain[0] && asked.above <= domain[1]) {
    const place = x(asked.above), side = place > WIDTH / 2 ? "end" : "start";
    parts.push(node("line", { class: "limit-line", x1: place, x2: place, y1: 8, y2: base }));
    const words = row.probability_above === undefined ? "limit" : `${percent(row.probability_above)} above`;
    parts.push(node("text", { class: "limit-text", x: place + (side === "end" ? -6 : 6), y: 19, "text-anchor": side }, words));
  }
  element("picture").replaceChildren(...parts);
  const slider = element("above-slider");
  [slider.min, slider.max] = domain;
  slider.value = state.above ?? (domain[0] + domain[1]) / 2;
}

// What was answered, with the limit and the coverage that were asked for: the inputs may have moved on.
function show(row, asked) {
  const decimals = decimalsFor(row.std), coverage = Math.round(100 * asked.coverage);
  draw(row, asked);
  element("mean").textContent = `${text(row.mean, decimals)} ± ${text(row.std, decimals)}`;
  element("interval-name").textContent = `${coverage} % interval`;
  element("interval-key").textContent = `${coverage} % interval`;
  const low = row.lower === null ? "−∞" : text(row.lower, decimals);
  const unsure = row.guaranteed === false ? " (not guaranteed)" : "";
  element("interval").textContent = `${low} to ${text(row.upper, decimals)}${unsure}`;
  element("above-name").textContent = asked.above === null ? "Above the limit" : `Above ${asked.above.toLocaleString("en", { maximumSignificantDigits: 6 })}`;
  element("probability").textContent = row.probability_above === undefined ? "set a limit" : percent(row.probability_above);
  element("coverage-shown").textContent = `${coverage} %`;
  const support = element("support");
  support.classList.toggle("lacking", row.supported === false);
  support.textContent = row.supported === undefined ? "" : row.supported
    ? "Such rows resemble the training rows."
    : `Unlike the training rows: ${row.reasons.join("; ")}.`;
  element("region").textContent = row.region === undefined ? "" : `Region ${row.region}: ${row.rule}`;
  clearTimeout(announceTimer);
  announceTimer = setTimeout(() => {
    element("summary").textContent = `Predicted ${card.target || "target"}: mean ${element("mean").textContent}, `
      + `${coverage} % interval ${element("interval").textContent}. ${support.textContent}`;
  }, ANNOUNCE_AFTER);
}

function explained(row) {
  const why = row.explanation, unit = decimalsFor(row.std / 10);
  const names = Object.keys(why.std_contributions);
  names.sort((a, b) => Math.abs(why.std_contributions[b]) - Math.abs(why.std_contributions[a]));
  const signed = (value) => {
    const shown = text(Math.abs(value), unit);
    return Number(shown.replaceAll(",", "")) === 0 ? "0" : `${value < 0 ? "−" : "+"}${shown}`;
  };
  const line = (name, std, mean) => make("tr", {}, make("td", {}, name), make("td", {}, std), make("td", {}, mean));
  const lines = names.slice(0, 8).map((n) => line(n, signed(why.std_contributions[n]), signed(why.mean_contributions[n])));
  const extra = [why.std_adjustment, why.mean_adjustment];
  if (extra.some((value) => Math.abs(value) > 1e-9 * row.std)) lines.push(line("the row as a whole", ...extra.map(signed)));
  element("contributions").replaceChildren(...lines);
  element("why-note").textContent = `Differences to the average of the region: standard deviation ${text(why.base_std, unit)}, `
    + `mean ${text(why.base_mean, unit)}.`;
  element("advice").replaceChildren(...why.advice.map((sentence) => make("li", {}, sentence)));
  element("why").hidden = false;
}

// ---- requests: one at a time, the latest state wins ----

async function update() {
  keepState();
  clearTimeout(explainTimer);
  if (running) {
    again = true;
    return;
  }
  running = true;
  do {
    again = false;
    try {
      const asked = { coverage: state.coverage, above: state.above };
      const body = { ...asked, rows: [state.row], quantiles: [0.5], curve: true };
      const answer = await ask(`models/${encodeURIComponent(state.model)}/predict`, body);
      say("");
      show(answer.predictions[0], asked);
    } catch (error) {
      say(error.message);
    }
  } while (again);
  running = false;
  if (card.regions.length) explainTimer = setTimeout(explain, EXPLAIN_AFTER);
}

async function explain() {
  try {
    const asked = JSON.stringify(state.row);
    const body = { rows: [state.row], quantiles: [], explain: true, curve: true };
    const answer = await ask(`models/${encodeURIComponent(state.model)}/predict`, body);
    if (asked === JSON.stringify(state.row)) explained(answer.predictions[0]);
  } catch {
    element("why").hidden = true;  // a model that kept no rows to compare with
  }
}

async function load(name, given) {
  card = await ask(`models/${encodeURIComponent(name)}`);
  state.model = name;
  state.row = {};
  for (const column of card.columns) {
    if (column.type === "ignored") continue;
    const value = given.r && column.name in given.r ? given.r[column.name] : card.example[column.name];
    state.row[column.name] = value === undefined ? null : value;
  }
  state.coverage = given.c > 0 && given.c < 1 ? given.c : 0.9;
  state.above = typeof given.a === "number" && isFinite(given.a) ? given.a : null;
  domain = null;
  element("why").hidden = true;
  const target = card.target || "the target";
  element("title").textContent = `What if: ${target}`;
  document.title = `What if: ${target}`;
  const n = card.regions.length;
  element("facts").textContent = [
    `${card.class} of usnrt ${card.library}`,
    n ? `${n} region${n === 1 ? "" : "s"}` : "",
    card.training_rows_in_memory ? `remembers ${card.training_rows_in_memory.toLocaleString("en")} training rows` : "",
  ].filter(Boolean).join(", ");
  element("notes").textContent = (card.notes || []).join(" ");
  drawInputs();
  await update();
}

async function start() {
  try {
    const names = (await ask("models")).models.map((model) => model.name), given = fromAddress();
    element("token-form").hidden = true;
    element("model").replaceChildren(...names.map((name) => make("option", { value: name }, name)));
    const chosen = names.includes(given.m) ? given.m : names[0];
    element("model").value = chosen;
    element("model-choice").hidden = names.length < 2;
    await load(chosen, given);
  } catch (error) {
    say(error.message);
  }
}

element("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("usnrt-token", element("token").value);
  say("");
  start();
});
element("model").addEventListener("change", () => load(element("model").value, {}).catch((error) => say(error.message)));
element("coverage").addEventListener("input", () => { state.coverage = Number(element("coverage").value) / 100; update(); });
element("above").addEventListener("input", () => {
  const value = element("above").valueAsNumber;
  state.above = isFinite(value) ? value : null;
  update();
});
element("above-slider").addEventListener("input", () => {
  state.above = Number(Number(element("above-slider").value).toPrecision(4));
  element("above").value = state.above;
  update();
});
element("filter").addEventListener("input", () => {
  const wanted = element("filter").value.toLowerCase();
  for (const line of element("columns").children) line.hidden = !line.dataset.name.includes(wanted);
});
element("reset").addEventListener("click", () => load(state.model, {}).catch((error) => say(error.message)));
element("link").addEventListener("click", async () => {
  keepState();
  try {
    await navigator.clipboard.writeText(location.href);
    element("copied").textContent = "Copied.";
  } catch {
    element("copied").textContent = "The address of this page is the link.";
  }
});
window.addEventListener("hashchange", start);
start();
