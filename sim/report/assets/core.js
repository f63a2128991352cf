// @ts-check
// Shared helpers: DOM elements, number formatting, packed arrays, and the set of hidden series.

const SVG = "http://www.w3.org/2000/svg";

const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

// Create an element. Strings become text nodes, so that names from data files are never parsed as markup.
function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function shape(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

const ARRAYS = { u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, i32: Int32Array, f32: Float32Array, f64: Float64Array };

// Unpack an array {type, packed}: base64 of zlib-compressed little-endian numbers.
async function unpack({ type, packed }) {
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new ARRAYS[type](await new Response(stream).arrayBuffer());
}

// Format a number with `digits` significant digits; integer digits are never rounded.
function number(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  const decimals = size === 0 ? 0 : Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  return value.toLocaleString("en", { maximumFractionDigits: Math.min(decimals, 6) });
}

// Names of the hidden series, with listeners; names remain valid when newer data arrive.
const hidden = {
  names: new Set(),
  listeners: [],
  toggle(name) {
    if (!this.names.delete(name)) this.names.add(name);
    for (const listener of this.listeners) listener();
  },
  listen(listener) {
    this.listeners.push(listener);
  },
};

const colour = (series) => `var(--series-${series.look[0]})`;
