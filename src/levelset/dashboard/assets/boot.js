// Loads the page. A browser drops what it is loading when a network interface appears or disappears, such as that of a
// container: then the page is loaded again, at most so many times in a row.

const MOST = 5, NAME = "levelset-loads";

import("./main.js").then(() => sessionStorage.removeItem(NAME), (error) => {
  const times = Number(sessionStorage.getItem(NAME)) || 0;
  if (times >= MOST) throw error;
  sessionStorage.setItem(NAME, String(times + 1));
  setTimeout(() => location.reload(), 300 * (times + 1));
});
