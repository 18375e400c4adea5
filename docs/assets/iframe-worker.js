/* The search without a server: a browser starts no worker from a file, so the worker runs in a hidden frame.
   mkdocs-material's offline plugin asks for such a script by this name, and else for one of another host. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.append(frame); // about:blank has the origin of this page
      const inside = frame.contentWindow;
      const run = (source) => new Promise((done, failed) => {
        const script = inside.document.createElement("script");
        Object.assign(script, {src: source, onload: done, onerror: failed});
        inside.document.body.append(script);
      });
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", {data}));
      inside.importScripts = (...sources) =>
        sources.reduce((before, source) => before.then(() => run(source)), Promise.resolve());
      this.ready = run(address);
      this.inside = inside;
    }
    async postMessage(data) {
      await this.ready;
      this.inside.dispatchEvent(new this.inside.MessageEvent("message", {data}));
    }
  };
}
