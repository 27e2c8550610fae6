// The short form of a placement, as far as its four fields say it; all else stays text.

const SIMPLE = new RegExp(
  String.raw`^\s*(?:(\d+)\s*x\s*\(\s*)?(?:(\d+)\s*x\s*)?([^\s()@+*\[\]=][^()@+*\[\]=]*?)(\[[^\]]*\])?(\s*\))?` +
  String.raw`(?:\s*@\s*(\S+))?((?:\s+(?:[a-z_]+\s*=\s*\S+|sp))*)\s*$`, "i");

/** The count behind the name, as in A100x8, A100:8 and A100 x 8; the x of an RTX-3090 belongs to it. */
const COUNT_LAST = /^\s*([^()@+[\]=]*?[a-z][^()@+[\]=]*?|\d{4}(?=x\d{1,2}$))\s*(?:(?<!rt|gt|\br)x\s*|[*×:]\s*)(\d{1,4})(?=\s|@|$)/i;
const COUNT_FIRST = /^(\s*\d+)(?:\s*[*×]\s*| (?=[a-z]\S))/i;

/** Read a text into its parts; null where there are more kinds of hosts than one. */
export function readPlacement(text) {
  const usual = text.replace(COUNT_FIRST, "$1x").replace(COUNT_LAST, "$2x$1");
  const [found, hosts, count, accelerator, link, closed, network, options] = SIMPLE.exec(usual) ?? [];
  if (!found || Boolean(hosts) !== Boolean(closed)) return null;
  return {
    accelerator,
    count: count ?? "1",
    hosts: hosts ?? "1",
    link: link ?? "",
    network: network ?? "",
    options: options.trim(),
  };
}

/** Write parts as a text. */
export function writePlacement({ accelerator, count, hosts, link = "", network = "", options = "" }) {
  const host = `${count === "1" || count === "" ? "" : `${count}x`}${accelerator}${link}`;
  const all = hosts === "1" || hosts === "" ? host : `${hosts}x(${host})`;
  return [network ? `${all}@${network}` : all, options].filter(Boolean).join(" ");
}
