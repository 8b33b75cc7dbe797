"""The page's style sheet: light and dark, no fonts or images from anywhere."""

STYLE = """
:root { color-scheme: light dark;
  --page: #ffffff; --card: #f6f7f9; --ink: #1b1f24; --soft: #5b6570; --line: #d9dee4;
  --reference: #8a94a0; --target: #1261c9; --difference: #7a3fb5; --mark: #b45f06;
  --good: #17703a; --bad: #b3261e; --good-bg: #e5f4ea; --bad-bg: #fbe9e7; }
@media (prefers-color-scheme: dark) { :root {
  --page: #14171b; --card: #1d2126; --ink: #e8ebee; --soft: #9ba5b0; --line: #343b43;
  --reference: #8e99a5; --target: #6cb0ff; --difference: #c39bf0; --mark: #f0a04b;
  --good: #6fd693; --bad: #ff8b80; --good-bg: #16301f; --bad-bg: #3a1c1a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; }
main { max-width: 860px; margin: 0 auto; padding: 28px 20px 60px; }
h1 { font-size: 22px; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 16px; margin: 34px 0 8px; }
h3 { font-size: 14px; font-weight: 500; margin: 14px 0 4px; color: var(--soft); }
p { margin: 6px 0; }
.soft, .none { color: var(--soft); }
code, pre, td.code { font: 13px/1.5 ui-monospace, "SFMono-Regular", Menlo, Consolas, monospace; }
.verdict { display: inline-block; padding: 2px 10px; border-radius: 4px; font-weight: 600; }
.verdict.proven, .ok { color: var(--good); } .verdict.proven { background: var(--good-bg); }
.verdict.failed, .failed { color: var(--bad); } .verdict.failed { background: var(--bad-bg); }
.box { background: var(--card); border-left: 3px solid var(--bad); padding: 10px 14px; margin: 14px 0;
  border-radius: 0 4px 4px 0; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 5px 10px 5px 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
th { color: var(--soft); font-weight: 500; white-space: nowrap; }
td.figure, th.figure { text-align: right; white-space: nowrap; }
.verdicts td:first-child { white-space: nowrap; }
tr.first td { background: var(--bad-bg); }
svg { width: 100%; height: auto; display: block; }
.narrow { display: none; }
.verdicts .means { color: var(--soft); display: block; } .verdicts .advice { display: block; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 14px; margin: 10px 0; color: var(--soft); }
dt { font-weight: 500; } dd { margin: 0; overflow-wrap: anywhere; }
td.tensor { overflow-wrap: anywhere; }
@media (max-width: 620px) {
  main { padding: 18px 14px 40px; }
  .wide { display: none; } .narrow { display: block; }
  dl { grid-template-columns: 1fr; } dd { margin-bottom: 6px; }
  .verdicts thead { display: none; }
  .verdicts tr { display: block; border-bottom: 1px solid var(--line); padding: 8px 0; }
  .verdicts td { display: inline; border: 0; padding: 0 8px 0 0; }
  .verdicts td:nth-child(3), .verdicts td:nth-child(4) { display: block; overflow-wrap: anywhere; }
  .figures-table td { white-space: normal; }
}
svg text { font: 11px system-ui, sans-serif; fill: var(--soft); }
svg .grid { stroke: var(--line); } svg .axis { stroke: var(--soft); }
svg .limit { stroke: var(--bad); stroke-dasharray: 5 4; } svg .limit-name { fill: var(--bad); }
svg .alarm { stroke: var(--bad); } svg .alarm-name { fill: var(--bad); }
svg .limit-name, svg .alarm-name { paint-order: stroke; stroke: var(--page); stroke-width: 4px; }
svg path { fill: none; stroke-linejoin: round; stroke-linecap: round; }
svg .reference path { stroke: var(--reference); stroke-width: 6; opacity: .55; }
svg .reference circle { fill: var(--reference); opacity: .55; }
svg .target path { stroke: var(--target); stroke-width: 1.8; }
svg .target circle { fill: var(--target); }
svg .difference path { stroke: var(--difference); stroke-width: 1.8; }
svg .difference circle { fill: var(--difference); }
svg path.mark { fill: var(--mark); }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; font-size: 13px; color: var(--soft); }
.key i { display: inline-block; width: 20px; height: 4px; margin-right: 7px; vertical-align: middle;
  border-radius: 2px; }
.key.reference i { background: var(--reference); height: 7px; opacity: .6; }
.key.target i { background: var(--target); } .key.difference i { background: var(--difference); }
.key.mark i { background: var(--mark); width: 9px; height: 9px; }
pre { background: var(--card); padding: 10px 12px; overflow-x: auto; margin: 8px 0; border-radius: 4px; }
pre.diff span { display: block; min-width: max-content; }
pre.diff .added { color: var(--good); background: var(--good-bg); }
pre.diff .removed { color: var(--bad); background: var(--bad-bg); }
pre.diff .at { color: var(--soft); }
summary { cursor: pointer; color: var(--soft); }
"""
