// The search runs in a worker, which a page that is opened from a folder may not start: it gets a frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = `<script>postMessage = (data) => parent.postMessage(data, "*")</script>
        <script src="${url}"></script>`;
      this.ready = new Promise((resolve) => frame.addEventListener("load", () => resolve(frame)));
      addEventListener("message", ({ source, data }) => {
        if (source === frame.contentWindow) this.dispatchEvent(new MessageEvent("message", { data }));
      });
      document.body.append(frame);
    }

    async postMessage(data) {
      (await this.ready).contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }
  };
}
