// The page: sends questions to the worker, which runs the model, and shows the parts of its answers.

const element = (id) => document.getElementById(id);
let worker;

const ENDS = { length: "cut at the most tokens", context: "the context is full: begin a new conversation", stopped: "stopped" };

/** Enables the controls of a state: "empty" before a model is loaded, "loading", "ready" for a question, "answering". */
function setState(state) {
  for (const id of ["file", "beside"]) element(id).disabled = state === "loading" || state === "answering";
  for (const id of ["question", "ask", "forget"]) element(id).disabled = state !== "ready";
  element("stop").disabled = state !== "answering";
  document.body.dataset.state = state;
  if (state === "ready") element("question").focus();
}

function show(status, error = "") {
  element("status").textContent = status;
  element("error").textContent = error;
}

function addMessage(role, text) {
  const item = Object.assign(document.createElement("li"), { className: role, textContent: text });
  return element("messages").appendChild(item);
}

/** Loads a model, a `File` or the URL of one, in a worker of its own. */
function load(source) {
  worker?.terminate();
  worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
  worker.onmessage = ({ data }) => receivers[data.type](data);
  worker.onerror = ({ message }) => receivers.error({ message: message ?? "the worker failed: see the console" });
  setState("loading");
  show("Loading the model ...");
  element("messages").replaceChildren();
  worker.postMessage({ load: source });
}

const receivers = {
  progress: ({ done }) => show(`Loading the model: ${Math.round(100 * done)} %`),
  loaded() {
    setState("ready");
    show("Ask something.");
  },
  text({ text }) {
    element("messages").lastElementChild.append(text);
  },
  end({ end, tokens, seconds }) {
    const rate = tokens > 1 ? `, ${((tokens - 1) / seconds).toFixed(1)} tokens a second` : "";
    setState("ready");
    show(`${tokens} tokens${rate}${end in ENDS ? `; ${ENDS[end]}` : ""}`);
  },
  error({ message, isUsable = false }) {
    setState(isUsable ? "ready" : "empty");
    show("", message);
  },
};

element("file").addEventListener("change", ({ target }) => target.files.length && load(target.files[0]));
element("beside").addEventListener("click", () => load(new URL("model.gguf", location.href).href));
element("stop").addEventListener("click", () => worker.postMessage({ stop: true }));
element("forget").addEventListener("click", () => {
  element("messages").replaceChildren();
  show("Ask something.");
  worker.postMessage({ forget: true });
});
element("loading").addEventListener("submit", (event) => event.preventDefault());
element("asking").addEventListener("submit", (event) => {
  event.preventDefault();
  const question = element("question").value.trim();
  if (!question || document.body.dataset.state !== "ready") return;
  element("question").value = "";
  addMessage("user", question);
  addMessage("assistant", "");
  setState("answering");
  show("Reading the question ...");
  const number = (id) => (element(id).value === "" ? undefined : element(id).valueAsNumber);
  worker.postMessage({ ask: { question, temperature: number("temperature"), limit: number("limit"), seed: number("seed") } });
});
setState("empty");
