"use strict";
// Cookies of a session are sent to no page that a link elsewhere leads to: who has signed in and
// followed one is led on from here.
(() => {
  const { to } = document.querySelector("form.sign-in").elements;
  fetch("/session", { cache: "no-store" })
    .then((answer) => answer.json())
    .then(({ signed_in: is }) => {
      if (is) location.replace(to.value);
    })
    .catch(() => {});
})();
