// Browsers start no worker from a file. Opened from a folder, the search runs in a hidden frame that behaves like one.
(function () {
  if (location.protocol !== "file:") return;
  class FrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.onmessage = null;
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.frame = frame;
      const inside = frame.contentWindow;
      window.addEventListener("message", (event) => {
        if (event.source !== inside) return;
        const message = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(message);
        if (this.onmessage) this.onmessage(message);
      });
      const head =
        "self.postMessage = (data) => parent.dispatchEvent(new MessageEvent('message', { data: data, source: self }));" +
        "self.importScripts = (...urls) => Promise.all(urls.map((url) => new Promise((done, failed) => {" +
        "const tag = document.createElement('script'); tag.src = url; tag.onload = done; tag.onerror = failed;" +
        "document.body.appendChild(tag); })));";
      this.ready = new Promise((done) => { frame.onload = done; });
      inside.document.open();
      inside.document.write("<html><body><script>" + head + "</" + "script><script src='" + url + "'></" + "script></body></html>");
      inside.document.close();
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data: data })));
    }
    terminate() {
      this.frame.remove();
    }
  }
  window.Worker = FrameWorker;
})();
