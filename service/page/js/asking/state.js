// What is asked: fields of the form, the address of the page, and the job that is sent.

import { COMPARED } from "./names.js";

/** Fields by their name in the address, with what they are unless they are changed. */
export const DEFAULTS = {
  model: "timm/resnet50",
  mode: "training",
  batch: "64",
  // Empty: what is usual on the accelerator.
  precision: "",
  optimizer: "sgd",
  sequence: "",
  compiler: "eager",
  format: "channels_first",
  accumulation: "1",
  checkpointing: "none",
  kwargs: "",
  on: "8xA100-SXM4-80GB",
  // Of single pictures.
  versus: COMPARED.join(","),
  most: "64",
  perhost: "8",
};

/** A graph that was registered, in place of a name. */
const GRAPH = /^[0-9a-f]{32}$/;

/** Read the address of the page: its fragment, and what links of before state in their query. */
export function fromAddress({ search, hash }) {
  const [stated, before] = [new URLSearchParams(hash.slice(1)), new URLSearchParams(search)];
  return Object.fromEntries(
    Object.entries(DEFAULTS).map(([name, usual]) => [name, stated.get(name) ?? before.get(name) ?? usual]));
}

/** Write what differs from the usual as an address; no server has to read the fragment. */
export function toAddress(state) {
  const changed = Object.entries(state).filter(([name, value]) => value !== DEFAULTS[name]);
  // Slashes, commas and brackets may stand in a fragment; so written they can be read.
  const text = new URLSearchParams(changed).toString().replace(/%(2F|2C|40|28|29|5B|5D|3A)/g, decodeURIComponent);
  return text ? `${location.pathname}#${text}` : location.pathname;
}

/**
 * Write a job as the service reads it; what has its default is left out.
 *
 * `usual` is the precision of the accelerator. Returns the job and what of it cannot be sent.
 */
export function jobOf(state, usual) {
  const mistakes = [];
  const job = written(state, usual, mistakes);
  return { job, mistakes };
}

function written(state, usual, mistakes) {
  const job = { ...modelOf(state.model.trim(), mistakes), mode: state.mode };
  put(job, "batch_size", count(state.batch), undefined);
  put(job, "model_kwargs", object(state.kwargs, "/job/model_kwargs", mistakes), undefined);
  put(job, "precision", state.precision || usual, "fp32");
  put(job, "sequence_length", count(state.sequence), undefined);
  put(job, "compiler", state.compiler, DEFAULTS.compiler);
  put(job, "memory_format", state.format, DEFAULTS.format);
  if (state.mode === "training") {
    put(job, "optimizer", state.optimizer, DEFAULTS.optimizer);
    put(job, "accumulation_steps", count(state.accumulation), 1);
    put(job, "activation_checkpointing", state.checkpointing, DEFAULTS.checkpointing);
  }
  return job;
}

function modelOf(text, mistakes) {
  if (GRAPH.test(text)) return { graph: text };
  if (text.startsWith("{")) return { hf_config: object(text, "/job/model", mistakes) };
  return { model: text };
}

/** Return a whole number as one, any other text as it is: the service says what is wrong with it. */
export function count(text) {
  const trimmed = text.trim();
  if (trimmed === "") return undefined;
  return /^\d{1,15}$/.test(trimmed) ? Number(trimmed) : trimmed;
}

function object(text, pointer, mistakes) {
  if (text.trim() === "") return undefined;
  try {
    return JSON.parse(text);
  } catch (error) {
    mistakes.push({ pointer, detail: `This is not JSON: ${error.message}.` });
    return undefined;
  }
}

function put(job, name, value, usual) {
  if (value !== undefined && value !== usual) job[name] = value;
}
