// Two builds of the page: the app that the server delivers, and explain.html, a single self-contained file. A third build
// has the page's own model alone, for tests in Node: vite build --mode model --outDir FOLDER.
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig, type Plugin } from "vite";

const page = "../src/regard/serve/page";

/** Inline the script and the style sheet, so that the page works when opened from a file. */
function inlineAssets(): Plugin {
  return {
    name: "inline-assets",
    enforce: "post",
    generateBundle(_options, bundle) {
      const html = Object.values(bundle).find((file) => file.fileName.endsWith(".html"));
      if (html?.type !== "asset") throw new Error("the build has no HTML file");
      let text = String(html.source);
      for (const [name, file] of Object.entries(bundle)) {
        if (file === html) continue;
        delete bundle[name];
        if (file.type === "chunk") {
          const code = file.code.replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
          text = text.replace(/<script type="module"[^>]*src="[^"]*"[^>]*><\/script>/, "");
          text = text.replace("</body>", () => `<script type="module">${code}</script>\n</body>`);
        } else if (name.endsWith(".css")) {
          const style = `<style>${String(file.source)}</style>`;
          text = text.replace(/<link rel="stylesheet"[^>]*>/, () => style);
        }
      }
      html.source = text;
      html.fileName = "explain.html";
    },
  };
}

export default defineConfig(({ mode }) => {
  if (mode === "model") return { publicDir: false, build: { target: "es2022", minify: false, lib: { entry: "src/model/requests.ts", formats: ["es"], fileName: "model" } } };
  const single = mode === "explain";
  return {
    base: "./",
    publicDir: false,
    plugins: single ? [svelte(), inlineAssets()] : [svelte()],
    build: {
      outDir: page,
      emptyOutDir: !single,
      target: "es2022",
      modulePreload: { polyfill: false },
      assetsInlineLimit: single ? Number.MAX_SAFE_INTEGER : 0,
      cssCodeSplit: false,
      rolldownOptions: single ? { output: { codeSplitting: false } } : {},
    },
    server: { proxy: { "/api": "http://127.0.0.1:8766" } },
  };
});
