// The open panel as an SVG or PNG file. The SVG holds the panel's elements and styles, with its canvases as images.

function styles(): string {
  return [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules].map((rule) => rule.cssText)).join("\n");
}

function clone(panel: HTMLElement): HTMLElement {
  const copy = panel.cloneNode(true) as HTMLElement;
  const canvases = panel.querySelectorAll("canvas");
  copy.querySelectorAll("canvas").forEach((one, index) => {
    const image = document.createElement("img");
    image.src = canvases[index].toDataURL();
    image.setAttribute("style", `${one.getAttribute("style") ?? ""};display:block`);
    image.className = one.className;
    one.replaceWith(image);
  });
  copy.querySelectorAll("[data-export], .overlay").forEach((one) => one.remove());
  return copy;
}

export function panelAsSvg(panel: HTMLElement): string {
  const { width, height } = panel.getBoundingClientRect();
  const margin = 16;
  const [w, h] = [Math.ceil(width) + 2 * margin, Math.ceil(panel.scrollHeight > height ? panel.scrollHeight : height) + 2 * margin];
  const root = document.documentElement;
  const body = document.createElement("div");
  body.setAttribute("style", `font: 15px/1.55 var(--sans); color: var(--text); background: var(--paper); padding: ${margin}px; box-sizing: border-box; width: ${w}px; height: ${h}px`);
  body.append(clone(panel));
  const content = new XMLSerializer().serializeToString(body);
  const style = document.createElement("style");
  style.textContent = styles();
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${w}" height="${h}" viewBox="0 0 ${w} ${h}" data-theme="${root.dataset.theme ?? "light"}" style="${root.style.cssText.replaceAll('"', "'")}">`,
    new XMLSerializer().serializeToString(style),
    `<foreignObject width="${w}" height="${h}">${content}</foreignObject></svg>`,
  ].join("\n");
}

async function panelAsPng(panel: HTMLElement): Promise<Blob> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(panelAsSvg(panel))}`;
  await image.decode();
  const canvas = new OffscreenCanvas(image.width * 2, image.height * 2);
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas.convertToBlob({ type: "image/png" });
}

/** Offers the open panel as a download. */
export async function exportPanel(name: string, format: "svg" | "png"): Promise<void> {
  const panel = document.querySelector<HTMLElement>("[data-view]");
  if (!panel) return;
  const blob = format === "svg" ? new Blob([panelAsSvg(panel)], { type: "image/svg+xml" }) : await panelAsPng(panel);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `regard-${name}.${format}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
