/**
 * Style and script of the tap page. Both are the same on every page, so the policy allows only their hashes: what
 * differs between pages is in attributes. The script is plain ES5, since in-app browsers are old.
 */
import { createHash } from 'node:crypto';

export const tapStyle =
  ':root{color-scheme:light dark;--b:#f4f4f6;--c:#fff;--i:#16161a;--s:#5c5c66;--l:#e3e3e8;--g:#16161a;--t:#fff}' +
  '@media(prefers-color-scheme:dark){:root{--b:#0b0b0d;--c:#1a1a1e;--i:#f5f5f7;--s:#a5a5b0;--l:#2e2e35;--g:#f5f5f7;--t:#111114}}' +
  '*{box-sizing:border-box;margin:0}' +
  'body{display:flex;min-height:100vh;min-height:100svh;background:var(--b);color:var(--i);' +
  'font:1rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;-webkit-text-size-adjust:100%;' +
  'padding:max(1rem,env(safe-area-inset-top)) 1rem max(1rem,env(safe-area-inset-bottom))}' +
  'main{display:flex;flex-direction:column;width:100%;max-width:26rem;margin:auto;text-align:center}' +
  'article{overflow:hidden;border-radius:1.5rem;background:var(--c);box-shadow:0 0 0 1px var(--l),0 1.25rem 3rem -1.5rem #0003}' +
  '.p{display:block;width:100%;aspect-ratio:1.91;object-fit:cover;background:var(--l)}' +
  '.m{width:4.5rem;height:4.5rem;margin:2rem auto 0;border-radius:1.25rem;background:var(--g);color:var(--t);' +
  'font-size:2rem;font-weight:600;line-height:4.5rem}' +
  '.w{padding:1.5rem}' +
  'h1{font-size:1.5rem;line-height:1.25;font-weight:700;letter-spacing:-.015em;overflow-wrap:anywhere;-webkit-hyphens:auto;hyphens:auto;text-wrap:balance}' +
  ':lang(ar) h1{letter-spacing:0}' +
  '.d{margin-top:.5rem;color:var(--s);overflow-wrap:anywhere}' +
  '.a{display:block;margin-top:1.5rem;padding:1rem 1.25rem;border-radius:1rem;background:var(--g);color:var(--t);' +
  'font-size:1.0625rem;font-weight:600;text-decoration:none;-webkit-tap-highlight-color:transparent}' +
  '.a:active{opacity:.8}.a:focus-visible{outline:3px solid #3b82f6;outline-offset:3px}' +
  '.n{margin-top:.875rem;color:var(--s);font-size:.8125rem;line-height:1.45;text-wrap:balance}' +
  '.h{margin-top:1.25rem;padding:.75rem 1rem;border-radius:.875rem;background:var(--b);font-size:.9375rem;text-align:start}' +
  '.f{margin-top:1rem;color:var(--s);font-size:.8125rem}' +
  '.x{position:fixed;top:0;opacity:0;white-space:pre;-webkit-user-select:text;user-select:text}';

/**
 * Sends the signals that the browser provides, once, and copies the link on the tap. The copy is made within the tap
 * and before the browser goes to the store: execCommand is synchronous; writeText is for browsers that no longer have
 * it.
 */
export const tapScript =
  '(function(){var d=document,a=d.querySelector(".a"),t=a.getAttribute("data-t"),c=a.getAttribute("data-c"),' +
  'i=d.querySelector(".p"),z="";function g(){i.remove()}' +
  'if(i){i.addEventListener("error",g);if(i.complete&&!i.naturalWidth)g()}' +
  'if(t)try{try{z=Intl.DateTimeFormat().resolvedOptions().timeZone||""}catch(e){}' +
  'navigator.sendBeacon("/-/tap",JSON.stringify({token:t,timezone:z,screen:[screen.width,screen.height],' +
  'pixel_ratio:devicePixelRatio,languages:[].slice.call(navigator.languages||[navigator.language],0,8)}))}catch(e){}' +
  'if(c)a.addEventListener("click",function(){var s=d.createElement("span"),r=d.createRange(),l=getSelection(),k;' +
  'function f(e){e.clipboardData.setData("text/plain",c);e.preventDefault()}' +
  's.className="x";s.textContent=c;d.body.appendChild(s);r.selectNodeContents(s);l.removeAllRanges();l.addRange(r);' +
  'd.addEventListener("copy",f);try{k=d.execCommand("copy")}catch(e){}d.removeEventListener("copy",f);' +
  'l.removeAllRanges();s.remove();if(!k&&navigator.clipboard)navigator.clipboard.writeText(c).catch(function(){})})})()';

const hashOf = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

const fixedPolicy =
  `default-src 'none'; style-src ${hashOf(tapStyle)}; script-src ${hashOf(tapScript)}; connect-src 'self'; ` +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** @param imageOrigin the only origin from which the page may load its picture; empty for no picture. */
export function tapPolicy(imageOrigin: string): string {
  return imageOrigin === '' ? fixedPolicy : `${fixedPolicy}; img-src ${imageOrigin}`;
}
