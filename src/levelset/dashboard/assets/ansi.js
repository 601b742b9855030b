// The colours of terminals in lines of logs: text with escape sequences becomes parts with a class or a colour.

const SEQUENCE = /\u001b(?:\[([0-9;:]*)([A-Za-z])|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g;
const PLAIN = { fg: null, bg: null, isBold: false, isFaint: false, isItalic: false, isUnderlined: false, isInverse: false };

// The parts of a line, and the state in which the next one begins. Everything but colours is dropped. Pure.
export function parseAnsi(line, state = PLAIN) {
  const parts = [];
  let at = 0;
  for (const found of line.matchAll(SEQUENCE)) {
    if (found.index > at) parts.push({ text: line.slice(at, found.index), ...look(state) });
    if (found[2] === "m") state = applied(state, (found[1] || "0").split(/[;:]/).map(Number));
    at = found.index + found[0].length;
  }
  if (at < line.length) parts.push({ text: line.slice(at).replace(/\u001b/g, ""), ...look(state) });
  return { parts, state };
}

function applied(state, codes) {
  for (let at = 0; at < codes.length; at++) {
    const code = codes[at];
    if (code === 38 || code === 48) {
      const [colour, used] = extended(codes.slice(at + 1));
      state = { ...state, [code === 38 ? "fg" : "bg"]: colour };
      at += used;
    } else state = changed(state, code);
  }
  return state;
}

function changed(state, code) {
  if (code === 0) return PLAIN;
  if (code === 1) return { ...state, isBold: true };
  if (code === 2) return { ...state, isFaint: true };
  if (code === 3) return { ...state, isItalic: true };
  if (code === 4) return { ...state, isUnderlined: true };
  if (code === 7) return { ...state, isInverse: true };
  if (code === 22) return { ...state, isBold: false, isFaint: false };
  if (code === 23) return { ...state, isItalic: false };
  if (code === 24) return { ...state, isUnderlined: false };
  if (code === 27) return { ...state, isInverse: false };
  if (code === 39) return { ...state, fg: null };
  if (code === 49) return { ...state, bg: null };
  if (code >= 30 && code <= 37) return { ...state, fg: code - 30 };
  if (code >= 40 && code <= 47) return { ...state, bg: code - 40 };
  if (code >= 90 && code <= 97) return { ...state, fg: code - 82 };
  if (code >= 100 && code <= 107) return { ...state, bg: code - 92 };
  return state;
}

// A colour of 256, or of all: its number below 16, or else its value; and how many codes it took.
function extended(codes) {
  if (codes[0] === 2) return [`rgb(${codes.slice(1, 4).map((one) => Math.min(255, one || 0)).join(" ")})`, 4];
  const number = codes[1] || 0;
  if (codes[0] !== 5) return [null, 0];
  if (number < 16) return [number, 2];
  if (number > 231) return [`rgb(${Array(3).fill(8 + 10 * (Math.min(255, number) - 232)).join(" ")})`, 2];
  const level = (one) => one ? 55 + 40 * one : 0;
  const [red, green, blue] = [Math.floor((number - 16) / 36), Math.floor((number - 16) / 6) % 6, (number - 16) % 6];
  return [`rgb(${level(red)} ${level(green)} ${level(blue)})`, 2];
}

function look(state) {
  const [fg, bg] = state.isInverse ? [state.bg, state.fg] : [state.fg, state.bg];
  const names = [
    typeof fg === "number" ? `fg${fg}` : "", typeof bg === "number" ? `bg${bg}` : "", state.isBold ? "bold" : "", state.isFaint ? "faint" : "",
    state.isItalic ? "italic" : "", state.isUnderlined ? "underlined" : "", state.isInverse && fg === null && bg === null ? "inverse" : ""];
  const style = { ...(typeof fg === "string" ? { color: fg } : {}), ...(typeof bg === "string" ? { backgroundColor: bg } : {}) };
  return { className: names.filter(Boolean).join(" "), style };
}
