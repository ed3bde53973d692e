// A report in a notebook's cell, whose edits go to the kernel: the part of tpnn.editor that anywidget runs.

const QUIET = 300; // milliseconds without a change, after which edits are sent

function render({model, el}) {
  const frame = document.createElement("iframe");
  let waiting = null;
  Object.assign(frame, {srcdoc: model.get("page"), title: "Report in which the model is edited"});
  frame.style.cssText = "width: 100%; height: 640px; border: 0";
  frame.addEventListener("tpnn-edits", ({detail}) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => { model.set("edits", detail); model.save_changes(); }, QUIET);
  });
  const error = Object.assign(document.createElement("p"), {role: "alert"});
  const showError = () => Object.assign(error, {textContent: model.get("error"), hidden: !model.get("error")});
  model.on("change:error", showError);
  showError();
  el.append(error, frame);
}

export default {render};
