/** Screens are loaded when they are first opened; an error in one does not break the navigation. */
import { Component, type ComponentType, lazy, type ReactNode } from 'react';
import { loadLaterTexts, t } from '#dashboard/texts/text.ts';
import { Failure } from './feedback.tsx';

const key = 'signpost-reloaded';
/** If a chunk is still missing this soon after a reload, it is an error, not an upgrade. */
const upgradeMs = 60_000;

/** A missing chunk belongs to an older release, so the page reloads itself once. */
export function screen<Props extends object>(load: () => Promise<{ default: ComponentType<Props> }>) {
  return lazy(async () => {
    try {
      const [loaded] = await Promise.all([load(), loadLaterTexts()]);
      return loaded;
    } catch (error) {
      if (Date.now() - Number(sessionStorage.getItem(key) ?? 0) < upgradeMs) throw error;
      sessionStorage.setItem(key, String(Date.now()));
      location.reload();
      return await new Promise<never>(() => undefined);
    }
  });
}

export class ScreenBoundary extends Component<{ readonly children: ReactNode }, { readonly error: unknown }> {
  override state = { error: null };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override render() {
    if (this.state.error === null) return this.props.children;
    return (
      <div className="stack">
        <Failure error={this.state.error} />
        <p>
          <button type="button" onClick={() => location.reload()}>
            {t('reload')}
          </button>
        </p>
      </div>
    );
  }
}
