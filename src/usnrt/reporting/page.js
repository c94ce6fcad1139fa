// Shows the details of one region at a time, and the coverage at the level of the slider.
// Without this script the page shows the details of all regions, and links still lead to them.
(() => {
  "use strict";
  document.documentElement.classList.add("js");
  const details = [...document.querySelectorAll(".detail")];
  const links = [...document.querySelectorAll("[data-region]")];

  const show = (region) => {
    details.forEach((detail) => { detail.hidden = detail.id !== `region-${region}`; });
    links.forEach((link) => {
      if (link.dataset.region === region) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    });
  };

  // On a narrow screen the tree is wider than its frame: scroll the selected region into view.
  const centre = (region) => {
    const leaf = document.querySelector(`.leaf[data-region="${region}"]`);
    const frame = leaf?.closest(".scroll");
    if (!frame) return;
    const box = leaf.getBoundingClientRect(), around = frame.getBoundingClientRect();
    frame.scrollLeft += box.left + box.width / 2 - around.left - around.width / 2;
  };

  const fromAddress = () => {
    const match = /^#region-(\d+)$/.exec(location.hash);
    return match && document.getElementById(`region-${match[1]}`) ? match[1] : null;
  };

  if (details.length) {
    const first = fromAddress() ?? details[0].dataset.id;
    show(first);
    centre(first);
    links.forEach((link) => link.addEventListener("click", (event) => {
      event.preventDefault();
      const region = link.dataset.region;
      show(region);
      if (!link.matches(".leaf")) centre(region);
      const listed = document.querySelector(`.regions a[data-region="${region}"]`)?.closest("details");
      if (listed) listed.open = true;
      history.replaceState(null, "", `#region-${region}`);
      const detail = document.getElementById(`region-${region}`);
      document.getElementById("announce").textContent = detail.dataset.summary;
      const box = detail.getBoundingClientRect();
      if (box.top > innerHeight - 120) detail.scrollIntoView({ block: "nearest" });
    }));
    addEventListener("hashchange", () => { const region = fromAddress(); if (region) show(region); });
    // Arrow keys move from region to region, in the tree and in the list.
    [".leaf", ".regions a"].forEach((selector) => {
      const group = [...document.querySelectorAll(selector)];
      group.forEach((link, index) => link.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
        if (event.key === " ") { event.preventDefault(); link.dispatchEvent(new MouseEvent("click", { cancelable: true })); }
        if (!step) return;
        event.preventDefault();
        group[(index + step + group.length) % group.length].focus();
      }));
    });
  }

  const slider = document.getElementById("level");
  if (slider) {
    const sentences = slider.dataset.sentences.split("|");
    const output = document.getElementById("level-sentence");
    const update = () => {
      const text = sentences[Number(slider.value)];
      output.textContent = text;
      slider.setAttribute("aria-valuetext", text);
    };
    slider.addEventListener("input", update);
    update();
  }
})();
