/** Drawers and confirmations, based on the browser's dialog element, which traps and restores the focus. */
import { type ReactNode, useEffect, useRef } from 'react';
import { t } from '#dashboard/texts/text.ts';
import { Icon } from './icons.tsx';

interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ReactNode;
  readonly isDrawer?: boolean;
}

export function Dialog({ title, onClose, children, isDrawer = false }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
    // Opening moves the focus to the first control, which is the close button.
    dialog.current?.querySelector<HTMLElement>('[data-focus]')?.focus();
  }, []);
  return (
    <dialog ref={dialog} className={isDrawer ? 'drawer' : 'box'} aria-label={title} onClose={onClose}>
      <div className="panel">
        <header>
          <h2>{title}</h2>
          <button
            type="button"
            className="plain icon push"
            aria-label={t('close')}
            onClick={() => dialog.current?.close()}
          >
            <Icon name="close" />
          </button>
        </header>
        {children}
      </div>
    </dialog>
  );
}

interface ConfirmProps {
  readonly title: string;
  readonly text: string;
  readonly action: string;
  readonly isBusy: boolean;
  /** For actions that create something and delete nothing. */
  readonly isHarmless?: boolean;
  readonly onConfirm: () => void;
  readonly onClose: () => void;
}

export function Confirm({ title, text, action, isBusy, isHarmless = false, onConfirm, onClose }: ConfirmProps) {
  return (
    <Dialog title={title} onClose={onClose}>
      <div className="fields">
        <p>{text}</p>
      </div>
      <footer>
        <button type="button" onClick={onClose}>
          {t('cancel')}
        </button>
        <button type="button" className={isHarmless ? 'primary' : 'danger'} disabled={isBusy} onClick={onConfirm}>
          {action}
        </button>
      </footer>
    </Dialog>
  );
}
