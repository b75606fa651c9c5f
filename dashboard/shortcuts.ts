/** Single-key shortcuts, active while no field has the focus and no dialog is open. */
export function onKeys(actions: Readonly<Record<string, () => void>>): () => void {
  const listen = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const target = event.target instanceof HTMLElement ? event.target : null;
    if (target?.matches('input, select, textarea') || document.querySelector('dialog[open]')) return;
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  };
  addEventListener('keydown', listen);
  return () => removeEventListener('keydown', listen);
}
