// The one place that names the libraries: Preact draws and updates the page, htm writes its elements as templates.
// Objects are untrusted input. Preact sets texts and attributes, never markup; the policy of the page forbids markup.

import { createContext, h, render } from "./vendor/preact.js";
import htm from "./vendor/htm.js";

export { createContext, render };
export { useContext, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/hooks.js";
export const html = htm.bind(h);
